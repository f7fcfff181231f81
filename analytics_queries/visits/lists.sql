-- Which pages, sources, links and so on had how many visitors? A row for each entry of each list (of a day, where
-- `{{by_day}}` is `day,`): visitors are pairs of visitor and day, `number` page views, visits or events. Where a visitor has
-- one visit on a day the pair need not be told from others, which spares most of the work.
SELECT
    {{by_day}}
    transform(
        grouping(source, country, campaign, device, browser, os, entry_page, exit_page),
        [127, 191, 223, 239, 247, 251, 253, 254],
        ['sources', 'countries', 'campaigns', 'devices', 'browsers', 'operating_systems', 'entry_pages', 'exit_pages'],
        ''
    ) AS list,
    concat(source, country, campaign, device, browser, os, entry_page, exit_page) AS name,
    countIf(is_single) + uniqExactIf(visitor, NOT is_single) AS visitors,
    count() AS number
FROM {{rows}}
WHERE is_start
GROUP BY GROUPING SETS
(
    ({{by_day}} source), ({{by_day}} country), ({{by_day}} campaign), ({{by_day}} device),
    ({{by_day}} browser), ({{by_day}} os), ({{by_day}} entry_page), ({{by_day}} exit_page)
)
HAVING name != ''
UNION ALL
SELECT
    {{by_day}} 'pages', toString(page), countIf(is_single) + uniqExactIf(visitor, NOT is_single), sum(views_of_page)
FROM {{rows}}
ARRAY JOIN pages AS page, page_views AS views_of_page
GROUP BY {{by_day}} page
UNION ALL
SELECT
    {{by_day}}
    transform(
        action.name,
        ['Outbound Link: Click', 'File Download', '404'],
        ['outbound_links', 'file_downloads', 'missing_pages'],
        ''
    ) AS list,
    action.label AS name,
    uniqExact(visitor),
    count()
FROM {{rows}}
ARRAY JOIN actions AS action
WHERE list != '' AND name != ''
GROUP BY {{by_day}} list, name

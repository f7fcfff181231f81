-- How often were goals reached, by how many visitors, with what revenue? Rows of three kinds:
--   visitors              visitors of the period (pairs of a visit's visitor and a day), with a conversion of any goal: `number`
--   goal_event, goal_path name: the event or path; number: conversions; money: their revenue by currency (millionths)
WITH
    stored AS
    (
        SELECT *, actions.name AS action_names
        FROM pharos.visit_days
        WHERE site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date} AND run IN {runs:Array(UInt64)}
        UNION ALL
        SELECT *, actions.name AS action_names
        FROM pharos.open_visit_days
        WHERE site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date} AND run IN {runs:Array(UInt64)}
    ),
    -- Those that the conditions keep. A condition that is not given costs nothing: the engine drops what is always true.
    visits AS
    (
        SELECT *
        FROM stored
        WHERE (empty({source:Array(String)}) OR (source IN {source:Array(String)}) = {source_wanted:Bool})
            AND (
                empty({source_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(source, {source_part:Array(String)}) = {source_part_wanted:Bool}
            )
            AND (empty({campaign:Array(String)}) OR (campaign IN {campaign:Array(String)}) = {campaign_wanted:Bool})
            AND (
                empty({campaign_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(campaign, {campaign_part:Array(String)}) = {campaign_part_wanted:Bool}
            )
            AND (empty({country:Array(String)}) OR (country IN {country:Array(String)}) = {country_wanted:Bool})
            AND (
                empty({country_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(country, {country_part:Array(String)}) = {country_part_wanted:Bool}
            )
            AND (empty({device:Array(String)}) OR (device IN {device:Array(String)}) = {device_wanted:Bool})
            AND (
                empty({device_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(device, {device_part:Array(String)}) = {device_part_wanted:Bool}
            )
            AND (empty({browser:Array(String)}) OR (browser IN {browser:Array(String)}) = {browser_wanted:Bool})
            AND (
                empty({browser_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(browser, {browser_part:Array(String)}) = {browser_part_wanted:Bool}
            )
            AND (empty({os:Array(String)}) OR (os IN {os:Array(String)}) = {os_wanted:Bool})
            AND (
                empty({os_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(os, {os_part:Array(String)}) = {os_part_wanted:Bool}
            )
            AND (empty({entry_page:Array(String)}) OR (entry_page IN {entry_page:Array(String)}) = {entry_page_wanted:Bool})
            AND (
                empty({entry_page_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(entry_page, {entry_page_part:Array(String)}) = {entry_page_part_wanted:Bool}
            )
            AND (empty({exit_page:Array(String)}) OR (exit_page IN {exit_page:Array(String)}) = {exit_page_wanted:Bool})
            AND (
                empty({exit_page_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(exit_page, {exit_page_part:Array(String)}) = {exit_page_part_wanted:Bool}
            )
            AND (
                empty({page:Array(String)})
                OR (hasAny(pages, {page:Array(String)}) OR hasAny(other_pages, {page:Array(String)})) = {page_wanted:Bool}
            )
            AND (
                empty({page_part:Array(String)})
                OR arrayExists(
                    each -> multiSearchAnyCaseInsensitiveUTF8(each, {page_part:Array(String)}), arrayConcat(pages, other_pages)
                ) = {page_part_wanted:Bool}
            )
            AND (empty({event:Array(String)}) OR hasAny(action_names, {event:Array(String)}) = {event_wanted:Bool})
            AND (
                empty({event_part:Array(String)})
                OR arrayExists(each -> multiSearchAnyCaseInsensitiveUTF8(each, {event_part:Array(String)}), action_names)
                    = {event_part_wanted:Bool}
            )
    ),
    -- Visits with a conversion of any goal. Without goals the engine knows that there are none, and reads no column.
    converted AS
    (
        SELECT visitor, is_single, pages, page_views, actions
        FROM visits
        WHERE (length({goal_paths:Array(String)}) = 1 AND has(pages, {goal_paths:Array(String)}[1]))
            OR (length({goal_paths:Array(String)}) > 1 AND arrayExists(each -> each IN {goal_paths:Array(String)}, pages))
            OR (notEmpty({goal_events:Array(String)}) AND hasAny(action_names, {goal_events:Array(String)}))
    )
SELECT
    'visitors' AS kind,
    '' AS name,
    countIf(is_present AND is_single) + uniqExactIf(visitor, is_present AND NOT is_single) AS visitors,
    toUInt64(0) AS number,
    CAST([], 'Array(Tuple(String, Int64))') AS money
FROM visits
UNION ALL
SELECT
    'goal_event', toString(action.name), uniqExact(visitor), count(),
    -- A map of sums leaves out what adds up to nothing.
    arrayMap(
        currency -> (
            currency,
            (sumMapIf([toString(action.currency)], [action.revenue], action.currency != '') AS sums).2[
                indexOf(sums.1, currency)
            ]
        ),
        groupUniqArrayIf(toString(action.currency), action.currency != '')
    )
FROM converted
ARRAY JOIN actions AS action
WHERE action.name IN {goal_events:Array(String)}
GROUP BY action.name
UNION ALL
SELECT
    'goal_path', toString(each), countIf(is_single) + uniqExactIf(visitor, NOT is_single), sum(views_of_page), []
FROM converted
ARRAY JOIN pages AS each, page_views AS views_of_page
WHERE each IN {goal_paths:Array(String)}
GROUP BY each

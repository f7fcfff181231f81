-- Parts of the queries of `read_visits.py`, which joins them: what are the figures and lists of a site's visits from
-- `first` to `last`? Common table expressions, and members of a UNION ALL. These return rows of four kinds, all with
-- visitors, that is pairs of a visit's visitor and a day (which `visitor` stands for):
--   day        name: the day; numbers: page views, visits, bounces, visits judged for bounce and duration, sum of their
--              durations (ms), visitors with a conversion
--   a list's   name: its entry; numbers: page views, visits or events
--   goal_event, goal_path   name: the event or path; numbers: conversions; money: their revenue by currency (millionths)
--   web_vital  name: the metric; numbers: samples; value: the smallest value that three quarters do not exceed

-- name: filtered_visits
-- Visits that the filters keep, chosen once: each part would read and choose them again. A filter that is not given costs nothing:
-- the engine drops what is always true.
    visits AS MATERIALIZED
    (
        SELECT
            day, visitor, is_single, is_present, is_start, duration_ms, is_bounce, source, campaign, device, country, browser,
            os, entry_page, exit_page, views, pages, page_views, actions, action_names, vitals
        FROM stored
        WHERE ({source:String} = '' OR source = {source:String})
            AND ({campaign:String} = '' OR campaign = {campaign:String})
            AND ({device:String} = '' OR device = {device:String})
            AND ({country:String} = '' OR country = {country:String})
            AND ({path:String} = '' OR has(pages, {path:String}) OR has(other_pages, {path:String}))
    );

-- name: converted
-- Visits with a conversion of any goal: few, and read twice.
    converted AS MATERIALIZED
    (
        SELECT visitor, is_single, pages, page_views, actions
        FROM visits
        WHERE (length({goal_paths:Array(String)}) = 1 AND has(pages, {goal_paths:Array(String)}[1]))
            OR (length({goal_paths:Array(String)}) > 1 AND arrayExists(page -> page IN {goal_paths:Array(String)}, pages))
            OR (notEmpty({goal_events:Array(String)}) AND hasAny(action_names, {goal_events:Array(String)}))
    );

-- name: day_figures
SELECT
    'day' AS list,
    toString(day) AS name,
    countIf(is_present AND is_single) + uniqExactIf(visitor, is_present AND NOT is_single) AS visitors,
    [
        toInt64(sum(views)),
        countIf(is_start),
        countIf(is_start AND is_judged AND is_bounce),
        countIf(is_start AND is_judged),
        sumIf(toInt64(duration_ms), is_start AND is_judged),
        countIf(is_converted AND is_single) + uniqExactIf(visitor, is_converted AND NOT is_single)
    ] AS numbers,
    CAST([], 'Array(Tuple(String, Int64))') AS money,
    0. AS value
FROM
(
    SELECT
        day, visitor, is_single, is_start, is_bounce, duration_ms, is_present, views,
        {path:String} = '' OR entry_page = {path:String} AS is_judged,
        (length({goal_paths:Array(String)}) = 1 AND has(pages, {goal_paths:Array(String)}[1]))
            OR (length({goal_paths:Array(String)}) > 1 AND arrayExists(page -> page IN {goal_paths:Array(String)}, pages))
            OR (notEmpty({goal_events:Array(String)}) AND hasAny(action_names, {goal_events:Array(String)}))
            AS is_converted
    FROM visits
)
GROUP BY day;

-- name: stored_lists
-- Stored entries of days that are over.
        SELECT list, name, visitors, number
        FROM pharos.visit_day_lists
        WHERE site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date} AND run IN {runs:Array(UInt64)}
        UNION ALL;

-- name: lists
-- The module inserts `stored_lists`, or nothing.
SELECT
    list, name, visitors_of_name AS visitors, [toInt64(number_of_name)] AS numbers,
    CAST([], 'Array(Tuple(String, Int64))') AS money, 0. AS value
FROM
(
    SELECT list, name, sum(visitors) AS visitors_of_name, sum(number) AS number_of_name
    FROM
    (
        {stored_lists}
        SELECT
            transform(
                grouping(source, country, campaign, device, browser, os, entry_page, exit_page),
                [127, 191, 223, 239, 247, 251, 253, 254],
                ['sources', 'countries', 'campaigns', 'devices', 'browsers', 'operating_systems', 'entry_pages', 'exit_pages'],
                ''
            ) AS list,
            concat(source, country, campaign, device, browser, os, entry_page, exit_page) AS name,
            countIf(is_single) + uniqExactIf(visitor, NOT is_single) AS visitors,
            count() AS number
        FROM visits
        WHERE is_start
        GROUP BY GROUPING SETS
        (
            (source), (country), (campaign), (device),
            (browser), (os), (entry_page), (exit_page)
        )
        HAVING name != ''
        UNION ALL
        SELECT
            'pages', toString(page), countIf(is_single) + uniqExactIf(visitor, NOT is_single), sum(views_of_page)
        FROM visits
        ARRAY JOIN pages AS page, page_views AS views_of_page
        GROUP BY page
        UNION ALL
        SELECT
            transform(
                action.name,
                ['Outbound Link: Click', 'File Download', '404'],
                ['outbound_links', 'file_downloads', 'missing_pages'],
                ''
            ) AS list,
            action.label AS name,
            uniqExact(visitor),
            count()
        FROM visits
        ARRAY JOIN actions AS action
        WHERE list != '' AND name != ''
        GROUP BY list, name
    )
    GROUP BY list, name
    ORDER BY visitors_of_name DESC, name
    LIMIT 5 BY list
);

-- name: event_goals
SELECT
    'goal_event', toString(action.name), uniqExact(visitor), [toInt64(count())],
    -- A map of sums leaves out what adds up to nothing.
    arrayMap(
        currency -> (
            currency,
            (sumMapIf([toString(action.currency)], [action.revenue], action.currency != '') AS sums).2[
                indexOf(sums.1, currency)
            ]
        ),
        groupUniqArrayIf(toString(action.currency), action.currency != '')
    ),
    0.
FROM {converted}
ARRAY JOIN actions AS action
WHERE action.name IN {goal_events:Array(String)}
GROUP BY action.name;

-- name: path_goals
SELECT
    'goal_path', toString(page), countIf(is_single) + uniqExactIf(visitor, NOT is_single),
    [toInt64(sum(views_of_page))], [], 0.
FROM {converted}
ARRAY JOIN pages AS page, page_views AS views_of_page
WHERE page IN {goal_paths:Array(String)}
GROUP BY page;

-- name: web_vitals
SELECT
    'web_vital' AS list, metric AS name, toUInt64(0) AS visitors, [toInt64(length(sorted))] AS numbers,
    CAST([], 'Array(Tuple(String, Int64))') AS money, sorted[intDiv(3 * length(sorted) + 3, 4)] AS value
FROM
(
    SELECT toString(vital.metric) AS metric, arraySort(groupArray(vital.value)) AS sorted
    FROM visits
    ARRAY JOIN vitals AS vital
    GROUP BY metric
);

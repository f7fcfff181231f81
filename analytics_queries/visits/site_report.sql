-- What is there to report of a site's visits from `first` to `last`, of those that the filters keep? Rows of four kinds, all
-- with visitors, that is pairs of a visit's visitor and a day (which `visitor` stands for):
--   day        name: the day; numbers: page views, visits, bounces, visits judged for bounce and duration, sum of their
--              durations (ms), visitors with a conversion
--   a list's   name: its entry; numbers: page views, visits or events
--   goal_event, goal_path   name: the event or path; numbers: conversions; money: their revenue by currency (millionths)
--   web_vital  name: the metric; numbers: samples; value: the smallest value that three quarters do not exceed
WITH
    kept AS {{how_kept}}
    (
        {{kept_rows}}
    ),
    -- Few, and looked at three times. Without goals it is known to be empty, and no column is read for it.
    converted AS MATERIALIZED
    (
        SELECT day, visitor, is_single, pages, page_views, actions
        FROM kept
        WHERE {{viewed_goal}}
            OR (notEmpty({goal_events:Array(String)}) AND hasAny(action_names, {goal_events:Array(String)}))
    )
SELECT
    'day' AS list,
    toString(day) AS name,
    countIf(is_present AND is_single) + uniqExactIf(visitor, is_present AND NOT is_single) AS visitors,
    [
        toInt64(sum(views)),
        countIf(is_start),
        countIf(is_start AND is_judged AND is_bounce),
        countIf(is_start AND is_judged),
        sumIf(toInt64(duration_ms), is_start AND is_judged)
    ] AS numbers,
    CAST([], 'Array(Tuple(String, Int64))') AS money,
    0. AS value
FROM
(
    SELECT
        day, visitor, is_single, is_start, is_bounce, duration_ms, is_present, views,
        {path:String} = '' OR entry_page = {path:String} AS is_judged
    FROM kept
)
GROUP BY day
UNION ALL
SELECT 'converted', toString(day), countIf(is_single) + uniqExactIf(visitor, NOT is_single), [], [], 0.
FROM converted
GROUP BY day
UNION ALL
SELECT list, name, visitors_of_name, [toInt64(number_of_name)], [], 0.
FROM
(
    SELECT list, name, sum(visitors) AS visitors_of_name, sum(number) AS number_of_name
    FROM
    (
        {{lists}}
    )
    GROUP BY list, name
    ORDER BY visitors_of_name DESC, name
    LIMIT 5 BY list
)
UNION ALL
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
FROM converted
ARRAY JOIN actions AS action
WHERE action.name IN {goal_events:Array(String)}
GROUP BY action.name
UNION ALL
SELECT
    'goal_path', toString(page), countIf(is_single) + uniqExactIf(visitor, NOT is_single),
    [toInt64(sum(views_of_page))], [], 0.
FROM converted
ARRAY JOIN pages AS page, page_views AS views_of_page
WHERE page IN {goal_paths:Array(String)}
GROUP BY page
UNION ALL
SELECT
    'web_vital', metric, toUInt64(0), [toInt64(length(sorted))], [], sorted[intDiv(3 * length(sorted) + 3, 4)]
FROM
(
    SELECT toString(vital.metric) AS metric, arraySort(groupArray(vital.value)) AS sorted
    FROM kept
    ARRAY JOIN vitals AS vital
    GROUP BY metric
)
SETTINGS enable_materialized_cte = 1

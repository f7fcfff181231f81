-- Statements of `stored_days.py`: figures of all visits of days that are over, computed once for each run of a day. A day whose
-- figures are stored also has its events stored.

-- name: read_figures
-- The stored figures of these runs.
SELECT day, pageviews, visitors, visits, bounces, visits AS judged, duration_ms, converted
FROM pharos.visit_day_figures
WHERE site_id = {site_id:UInt64} AND day IN {days:Array(Date)} AND run IN {runs:Array(UInt64)} AND goals = {goals:UInt64}
LIMIT 1 BY day;

-- name: find_over
-- Which of these days had ended when their runs were computed?
SELECT DISTINCT day
FROM pharos.told_days
WHERE site_id = {site_id:UInt64} AND day IN {days:Array(Date)} AND run IN {runs:Array(UInt64)} AND NOT is_open
ORDER BY day;

-- name: find_complete
-- Which of these runs have figures, of any goals?
SELECT DISTINCT day
FROM pharos.visit_day_figures
WHERE site_id = {site_id:UInt64} AND day IN {days:Array(Date)} AND run IN {runs:Array(UInt64)}
ORDER BY day;

-- name: insert_events
-- How often was each event sent on these days, by how many visitors, with what revenue?
INSERT INTO pharos.visit_day_events (site_id, day, run, name, visitors, number, money)
SELECT
    {site_id:UInt64}, day, run, toString(action.name), uniqExact(visitor), count(),
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
FROM pharos.visit_days
ARRAY JOIN actions AS action
WHERE site_id = {site_id:UInt64} AND day IN {days:Array(Date)} AND run IN {runs:Array(UInt64)}
GROUP BY day, run, action.name;

-- name: insert_figures
-- What are the figures of these days? Days without visits get a row too, but only past days.
INSERT INTO pharos.visit_day_figures
    (site_id, day, run, goals, pageviews, visitors, visits, bounces, duration_ms, converted)
SELECT {site_id:UInt64}, over.day, over.run, {goals:UInt64}, pageviews, visitors, visits, bounces, sum_ms, converted
FROM
(
    SELECT day, run
    FROM pharos.told_days FINAL
    WHERE site_id = {site_id:UInt64} AND day IN {days:Array(Date)} AND run IN {runs:Array(UInt64)} AND NOT is_open
) AS over
LEFT JOIN
(
    SELECT
        run,
        sum(views) AS pageviews,
        countIf(is_present AND is_single) + uniqExactIf(visitor, is_present AND NOT is_single) AS visitors,
        countIf(is_start) AS visits,
        countIf(is_start AND is_bounce) AS bounces,
        sumIf(duration_ms, is_start) AS sum_ms,
        countIf(is_converted AND is_single) + uniqExactIf(visitor, is_converted AND NOT is_single) AS converted
    FROM
    (
        SELECT
            run, visitor, is_single, is_present, is_start, is_bounce, duration_ms, views,
            (length({goal_paths:Array(String)}) = 1 AND has(pages, {goal_paths:Array(String)}[1]))
                OR (length({goal_paths:Array(String)}) > 1 AND arrayExists(each -> each IN {goal_paths:Array(String)}, pages))
                OR (notEmpty({goal_events:Array(String)}) AND hasAny(actions.name, {goal_events:Array(String)}))
                AS is_converted
        FROM pharos.visit_days
        WHERE site_id = {site_id:UInt64} AND day IN {days:Array(Date)} AND run IN {runs:Array(UInt64)}
    )
    GROUP BY run
) AS counted ON counted.run = over.run;

-- name: read_event_goals
-- How often were the goals reached on these days? Rows of this and the next statement are like
-- those of `visit_analysis/conversions.sql`, without the row of all visitors.
SELECT
    'goal_event' AS kind, name, sum(visitors) AS people, sum(number) AS conversions,
    arrayMap(
        currency -> (
            currency,
            (sumMap(arrayMap(each -> each.1, money), arrayMap(each -> each.2, money)) AS sums).2[indexOf(sums.1, currency)]
        ),
        groupUniqArrayArray(arrayMap(each -> each.1, money))
    ) AS revenue
FROM
(
    SELECT name, visitors, number, money
    FROM pharos.visit_day_events
    WHERE site_id = {site_id:UInt64} AND day IN {days:Array(Date)} AND run IN {runs:Array(UInt64)}
        AND name IN {goal_events:Array(String)}
    LIMIT 1 BY day, run, name
)
GROUP BY name;

-- name: read_path_goals
SELECT
    'goal_path' AS kind, name, sum(visitors) AS people, sum(number) AS conversions,
    CAST([], 'Array(Tuple(String, Int64))') AS revenue
FROM pharos.visit_day_lists
WHERE site_id = {site_id:UInt64} AND day IN {days:Array(Date)} AND run IN {runs:Array(UInt64)} AND list = 'pages'
    AND name IN {goal_paths:Array(String)}
GROUP BY name;

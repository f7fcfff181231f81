-- Statements of `daily_figures.py`, which joins `visits` and one or both of the others: how many page views, visitors, visits and
-- conversions did a site have on each day from `first` to `last`? Of the day `cut`, only events before `end_ms` count; if `cut` is
-- 1970-01-01, all days count whole. `visitors` of a day are distinct; `judged` are the visits that count for bounce and duration:
-- with a condition on pages those that entered on such a page.

-- name: visits
WITH
    stored AS
    (
        SELECT *, actions.name AS action_names
        FROM pharos.visit_days
        WHERE {has_past:Bool} AND site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date}
            AND run IN {runs:Array(UInt64)}
        UNION ALL
        SELECT *, actions.name AS action_names
        FROM pharos.open_visit_days
        WHERE site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date} AND run IN {runs:Array(UInt64)}
    ),
    -- Visits that meet the conditions of the request (see `conditions.py`).
    visits AS
    (
        SELECT *
        FROM stored
        WHERE {conditions}
    );

-- name: uncut_days
SELECT
    day,
    sum(views) AS pageviews,
    countIf(is_present AND is_single) + uniqExactIf(visitor, is_present AND NOT is_single) AS visitors,
    countIf(is_start) AS visits,
    countIf(is_start AND is_judged AND is_bounce) AS bounces,
    countIf(is_start AND is_judged) AS judged,
    sumIf(duration_ms, is_start AND is_judged) AS duration_ms,
    countIf(is_converted AND is_single) + uniqExactIf(visitor, is_converted AND NOT is_single) AS converted
FROM
(
    SELECT
        day, visitor, is_single, is_present, is_start, is_bounce, duration_ms, views,
            (empty({page:Array(String)}) OR (entry_page IN {page:Array(String)}) = {page_wanted:Bool})
                AND (
                    empty({page_part:Array(String)})
                    OR multiSearchAnyCaseInsensitiveUTF8(entry_page, {page_part:Array(String)}) = {page_part_wanted:Bool}
                ) AS is_judged,
            (length({goal_paths:Array(String)}) = 1 AND has(pages, {goal_paths:Array(String)}[1]))
                OR (length({goal_paths:Array(String)}) > 1 AND arrayExists(each -> each IN {goal_paths:Array(String)}, pages))
                OR (notEmpty({goal_events:Array(String)}) AND hasAny(action_names, {goal_events:Array(String)}))
                AS is_converted
    FROM visits
    WHERE day != {cut:Date}
)
GROUP BY day;

-- name: cut_day
-- The same of the day `cut`, from events before `end_ms`.
SELECT
    day,
    sum(views_before),
    uniqExactIf(visitor, is_present AND toUnixTimestamp64Milli(present_at) < {end_ms:Int64}),
    countIf(is_start_before),
    countIf(is_start_before AND is_judged AND is_bounce),
    countIf(is_start_before AND is_judged),
    sumIf(duration_ms, is_start_before AND is_judged),
    uniqExactIf(visitor, is_converted)
FROM
(
    SELECT
        day, visitor, is_present, present_at, is_bounce, duration_ms,
        arrayMap(times -> arrayCount(time -> time < {end_ms:Int64}, times), page_times) AS counts,
        arraySum(counts) AS views_before,
        is_start AND toUnixTimestamp64Milli(started_at) < {end_ms:Int64} AS is_start_before,
            (empty({page:Array(String)}) OR (entry_page IN {page:Array(String)}) = {page_wanted:Bool})
                AND (
                    empty({page_part:Array(String)})
                    OR multiSearchAnyCaseInsensitiveUTF8(entry_page, {page_part:Array(String)}) = {page_part_wanted:Bool}
                ) AS is_judged,
        arrayExists((each, count) -> count > 0 AND has({goal_paths:Array(String)}, toString(each)), pages, counts)
            OR arrayExists(
                action -> action.at < {end_ms:Int64} AND has({goal_events:Array(String)}, toString(action.name)), actions
            ) AS is_converted
    FROM visits
    WHERE day = {cut:Date}
)
GROUP BY day;

-- How many page views, visitors and visits did a site have in each hour from `begin_ms` to `end_ms`? `hour` counts from
-- `begin_ms`. Visits count in the hour in which they started; `judged` as in `daily_figures.sql`.
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
    )
SELECT
    hour,
    sum(part_pageviews) AS pageviews,
    sum(part_visitors) AS visitors,
    sum(part_visits) AS visits,
    sum(part_bounces) AS bounces,
    sum(part_judged) AS judged,
    sum(part_duration_ms) AS duration_ms
FROM
(
    SELECT
        intDiv(event.1 - {begin_ms:Int64}, 3600000) AS hour,
        countIf(event.2) AS part_pageviews,
        uniqExact(visitor) AS part_visitors,
        0 AS part_visits, 0 AS part_bounces, 0 AS part_judged, toUInt64(0) AS part_duration_ms
    FROM
    (
        SELECT
            visitor,
            arrayConcat(
                arrayMap(time -> (time, true), arrayFlatten(page_times)),
                arrayMap(action -> (action.at, false), actions)
            ) AS events
        FROM visits
    )
    ARRAY JOIN events AS event
    WHERE event.1 >= {begin_ms:Int64} AND event.1 < {end_ms:Int64}
    GROUP BY hour
    UNION ALL
    SELECT
        intDiv(toUnixTimestamp64Milli(started_at) - {begin_ms:Int64}, 3600000) AS hour,
        0, 0, count(), countIf(is_judged AND is_bounce), countIf(is_judged), sumIf(duration_ms, is_judged)
    FROM
    (
        SELECT
            started_at, is_bounce, duration_ms,
            (empty({page:Array(String)}) OR (entry_page IN {page:Array(String)}) = {page_wanted:Bool})
                AND (
                    empty({page_part:Array(String)})
                    OR multiSearchAnyCaseInsensitiveUTF8(entry_page, {page_part:Array(String)}) = {page_part_wanted:Bool}
                ) AS is_judged
        FROM visits
        WHERE is_start AND toUnixTimestamp64Milli(started_at) < {end_ms:Int64}
    )
    GROUP BY hour
)
GROUP BY hour

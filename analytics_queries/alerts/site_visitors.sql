-- Statements of `site_visitors.py`. As in reports, Web Vitals and engagement events alone make no visitor.

-- name: events_of_days
-- How many events did each site have on each day in UTC? From the projection `events_of_day`.
SELECT site_id, groupArray(day) AS days, groupArray(events) AS events
FROM
(
    SELECT site_id, day, count() AS events
    FROM pharos.pageviews
    WHERE day >= {first:Date}
    GROUP BY site_id, day
)
GROUP BY site_id;

-- name: recent
-- How many visitors did these sites have in the last minutes, and how many events in the last hour, before `end_us`?
SELECT
    site_id,
    uniqExactIf(
        visitor,
        occurred_at >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC') AND (NOT is_event OR name NOT IN ('Web Vital', 'Engagement'))
    ) AS visitors,
    count() AS events
FROM pharos.pageviews
WHERE site_id IN {sites:Array(UInt64)}
    AND day >= toDate(fromUnixTimestamp64Micro({hour_us:Int64}, 'UTC'))
    AND occurred_at >= fromUnixTimestamp64Micro({hour_us:Int64}, 'UTC')
    AND occurred_at < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
    AND received_at >= fromUnixTimestamp64Micro({hour_us:Int64}, 'UTC')
GROUP BY site_id;

-- name: usual
-- How many visits began in the hour before `end_ms` of each of the last days, and in how many windows of that hour was one of
-- them present? From the daily rollups in the sites' own time zones. A visit of d ms is present in 1 + d / window windows on
-- average. Days without a rollup have no visits: those without events have none.
WITH told AS
(
    SELECT site_id, day, argMax(run, told_at) AS run
    FROM pharos.told_days
    WHERE NOT is_open AND day >= {first:Date}
        AND (site_id, toString(timezone)) IN
            (SELECT arrayJoin(arrayZip({sites:Array(UInt64)}, {timezones:Array(String)})))
    GROUP BY site_id, day
)
SELECT
    site_id,
    arrayMap(ago -> toUInt64(countEqual(groupArrayIf(days_ago, is_within), ago)), range(1, {days:UInt8} + 1)) AS visits,
    sumIf(1 + duration_ms / {window_ms:UInt32}, is_within) AS window_visits
FROM
(
    SELECT
        site_id,
        duration_ms,
        {end_ms:Int64} - 1 - toUnixTimestamp64Milli(started_at) AS age_ms,
        intDiv(age_ms, 86400000) AS days_ago,
        days_ago >= 1 AND days_ago <= {days:UInt8} AND age_ms % 86400000 < 3600000 AS is_within
    FROM pharos.visit_days
    WHERE site_id IN {sites:Array(UInt64)}
        AND day >= {first:Date} AND is_start AND (site_id, day, run) IN (SELECT site_id, day, run FROM told)
)
GROUP BY site_id

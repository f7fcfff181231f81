-- Statements of `timeline.py`: how many of what were there in each step of a time range? A step begins at a multiple of
-- `step_s` seconds since 1970; steps without any are left out.

-- name: exceptions
-- How many exceptions did these environments have?
SELECT intDiv(toUnixTimestamp(toDateTime(timestamp)), {step_s:UInt32}) AS step,
    uniqCombined64(if(trace_id != '' AND source != 'event', sipHash64(trace_id, kind, message), identity)) AS exceptions
FROM pharos.exceptions
WHERE environment_id IN {environments:Array(String)}
    AND toDate(timestamp) >= toDate(toDateTime({begin_s:UInt32}, 'UTC'))
    AND toDate(timestamp) <= toDate(toDateTime({end_s:UInt32}, 'UTC'))
    AND timestamp >= toDateTime64({begin_s:UInt32}, 9, 'UTC')
    AND timestamp < toDateTime64({end_s:UInt32}, 9, 'UTC')
GROUP BY step;

-- name: visits_by_hour
-- How many visitors and page views did these sites have? In steps of whole hours, as the projection `views_by_hour` has them.
SELECT
    intDiv(toUnixTimestamp(toStartOfHour(occurred_at)), {step_s:UInt32}) AS step,
    uniqCombinedIf(visitor, NOT is_event OR name NOT IN ('Web Vital', 'Engagement')) AS visitors,
    countIf(NOT is_event) AS views
FROM pharos.pageviews
WHERE site_id IN {sites:Array(UInt64)}
    AND toStartOfHour(occurred_at) >= toDateTime({begin_s:UInt32}, 'UTC')
    AND toStartOfHour(occurred_at) < toDateTime({end_s:UInt32}, 'UTC')
GROUP BY step;

-- name: sources
-- The visits of one rollup.
SELECT * FROM sources;

-- name: visits
-- How many visitors and page views did these sites have in steps of any length?
SELECT
    intDiv(toUnixTimestamp(toDateTime(occurred_at)), {step_s:UInt32}) AS step,
    uniqCombined(visitor) AS visitors,
    countIf(NOT is_event) AS views
FROM pharos.pageviews
WHERE site_id IN {sites:Array(UInt64)}
    AND day >= toDate(toDateTime({begin_s:UInt32}, 'UTC'))
    AND day <= toDate(toDateTime({end_s:UInt32}, 'UTC'))
    AND occurred_at >= toDateTime64({begin_s:UInt32}, 3, 'UTC')
    AND occurred_at < toDateTime64({end_s:UInt32}, 3, 'UTC')
    AND (NOT is_event OR name NOT IN ('Web Vital', 'Engagement'))
GROUP BY step;

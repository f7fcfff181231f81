-- Statements of `request_rollups.py`, which joins some of the sources with UNION ALL. Requests are telemetry events of the types
-- request and job, and spans of the kinds Server and Consumer. Whole hours and minutes are read from the projections
-- `requests_by_hour` and `requests_by_minute`, and days from `requests_by_day`; their expressions must stay the same as there. `step_s` divides the range into
-- steps, multiples of it since 1970. The columns are service, step, requests, errors, durations.

-- name: event_days
SELECT
    toString(service) AS service, intDiv(toUInt32(toDate(timestamp)) * 86400, {step_s:UInt32}) AS step, count() AS requests,
    countIf(ifNull(status_code, 0) >= 500 OR severity IN ('error', 'critical')) AS errors,
    quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(least(greatest(ifNull(duration_ms, 0), 0.000001), 1e9), isNotNull(duration_ms)) AS durations
FROM pharos.telemetry_events
WHERE environment_id = {environment:String} AND type IN ('request', 'job')
    AND toDate(timestamp) >= toDate(toDateTime({days_begin_s:UInt32}, 'UTC'))
    AND toDate(timestamp) < toDate(toDateTime({days_end_s:UInt32}, 'UTC'))
    AND (empty({services:Array(String)}) OR service IN {services:Array(String)})
GROUP BY service, step;

-- name: event_hours
SELECT
    toString(service) AS service, intDiv(toUnixTimestamp(toStartOfHour(timestamp)), {step_s:UInt32}) AS step, count() AS requests,
    countIf(ifNull(status_code, 0) >= 500 OR severity IN ('error', 'critical')) AS errors,
    quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(least(greatest(ifNull(duration_ms, 0), 0.000001), 1e9), isNotNull(duration_ms)) AS durations
FROM pharos.telemetry_events
WHERE environment_id = {environment:String} AND type IN ('request', 'job')
    AND toStartOfHour(timestamp) >= toDateTime({hours_begin_s:UInt32}, 'UTC')
    AND toStartOfHour(timestamp) < toDateTime({hours_end_s:UInt32}, 'UTC')
    AND (toStartOfHour(timestamp) < toDateTime({days_begin_s:UInt32}, 'UTC')
        OR toStartOfHour(timestamp) >= toDateTime({days_end_s:UInt32}, 'UTC'))
    AND (empty({services:Array(String)}) OR service IN {services:Array(String)})
GROUP BY service, step;

-- name: event_minutes
SELECT
    toString(service) AS service, intDiv(toUnixTimestamp(toStartOfMinute(timestamp)), {step_s:UInt32}) AS step, count() AS requests,
    countIf(ifNull(status_code, 0) >= 500 OR severity IN ('error', 'critical')) AS errors,
    quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(least(greatest(ifNull(duration_ms, 0), 0.000001), 1e9), isNotNull(duration_ms)) AS durations
FROM pharos.telemetry_events
WHERE environment_id = {environment:String} AND type IN ('request', 'job')
    AND toStartOfMinute(timestamp) >= toDateTime({minutes_begin_s:UInt32}, 'UTC')
    AND toStartOfMinute(timestamp) < toDateTime({minutes_end_s:UInt32}, 'UTC')
    AND (toStartOfMinute(timestamp) < toDateTime({hours_begin_s:UInt32}, 'UTC')
        OR toStartOfMinute(timestamp) >= toDateTime({hours_end_s:UInt32}, 'UTC'))
    AND (empty({services:Array(String)}) OR service IN {services:Array(String)})
GROUP BY service, step;

-- name: event_rows
SELECT
    toString(service) AS service, intDiv(toUnixTimestamp(toDateTime(timestamp)), {step_s:UInt32}) AS step, count() AS requests,
    countIf(ifNull(status_code, 0) >= 500 OR severity IN ('error', 'critical')) AS errors,
    quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(least(greatest(ifNull(duration_ms, 0), 0.000001), 1e9), isNotNull(duration_ms)) AS durations
FROM pharos.telemetry_events
WHERE environment_id = {environment:String} AND type IN ('request', 'job')
    AND toDate(timestamp) IN {row_days:Array(Date)}
    AND timestamp >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')
    AND timestamp < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
    AND (timestamp < toDateTime64({minutes_begin_s:UInt32}, 6, 'UTC') OR timestamp >= toDateTime64({minutes_end_s:UInt32}, 6, 'UTC'))
    AND (empty({services:Array(String)}) OR service IN {services:Array(String)})
GROUP BY service, step;

-- name: span_days
SELECT
    toString(ServiceName) AS service, intDiv(toUInt32(toDate(Timestamp)) * 86400, {step_s:UInt32}) AS step, count() AS requests,
    countIf(StatusCode = 'Error') AS errors,
    quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(least(greatest(Duration / 1e6, 0.000001), 1e9), SpanKind IN ('Server', 'Consumer')) AS durations
FROM pharos.otel_traces
WHERE EnvironmentId = {environment:String} AND SpanKind IN ('Server', 'Consumer')
    AND toDate(Timestamp) >= toDate(toDateTime({days_begin_s:UInt32}, 'UTC'))
    AND toDate(Timestamp) < toDate(toDateTime({days_end_s:UInt32}, 'UTC'))
    AND (empty({services:Array(String)}) OR ServiceName IN {services:Array(String)})
GROUP BY service, step;

-- name: span_hours
SELECT
    toString(ServiceName) AS service, intDiv(toUnixTimestamp(toStartOfHour(Timestamp)), {step_s:UInt32}) AS step, count() AS requests,
    countIf(StatusCode = 'Error') AS errors,
    quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(least(greatest(Duration / 1e6, 0.000001), 1e9), SpanKind IN ('Server', 'Consumer')) AS durations
FROM pharos.otel_traces
WHERE EnvironmentId = {environment:String} AND SpanKind IN ('Server', 'Consumer')
    AND toStartOfHour(Timestamp) >= toDateTime({hours_begin_s:UInt32}, 'UTC')
    AND toStartOfHour(Timestamp) < toDateTime({hours_end_s:UInt32}, 'UTC')
    AND (toStartOfHour(Timestamp) < toDateTime({days_begin_s:UInt32}, 'UTC')
        OR toStartOfHour(Timestamp) >= toDateTime({days_end_s:UInt32}, 'UTC'))
    AND (empty({services:Array(String)}) OR ServiceName IN {services:Array(String)})
GROUP BY service, step;

-- name: span_minutes
SELECT
    toString(ServiceName) AS service, intDiv(toUnixTimestamp(toStartOfMinute(Timestamp)), {step_s:UInt32}) AS step, count() AS requests,
    countIf(StatusCode = 'Error') AS errors,
    quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(least(greatest(Duration / 1e6, 0.000001), 1e9), SpanKind IN ('Server', 'Consumer')) AS durations
FROM pharos.otel_traces
WHERE EnvironmentId = {environment:String} AND SpanKind IN ('Server', 'Consumer')
    AND toStartOfMinute(Timestamp) >= toDateTime({minutes_begin_s:UInt32}, 'UTC')
    AND toStartOfMinute(Timestamp) < toDateTime({minutes_end_s:UInt32}, 'UTC')
    AND (toStartOfMinute(Timestamp) < toDateTime({hours_begin_s:UInt32}, 'UTC')
        OR toStartOfMinute(Timestamp) >= toDateTime({hours_end_s:UInt32}, 'UTC'))
    AND (empty({services:Array(String)}) OR ServiceName IN {services:Array(String)})
GROUP BY service, step;

-- name: span_rows
SELECT
    toString(ServiceName) AS service, intDiv(toUnixTimestamp(toDateTime(Timestamp)), {step_s:UInt32}) AS step, count() AS requests,
    countIf(StatusCode = 'Error') AS errors,
    quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(least(greatest(Duration / 1e6, 0.000001), 1e9), SpanKind IN ('Server', 'Consumer')) AS durations
FROM pharos.otel_traces
WHERE EnvironmentId = {environment:String} AND SpanKind IN ('Server', 'Consumer')
    AND toDate(Timestamp) IN {row_days:Array(Date)}
    AND Timestamp >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')
    AND Timestamp < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
    AND (Timestamp < toDateTime64({minutes_begin_s:UInt32}, 9, 'UTC') OR Timestamp >= toDateTime64({minutes_end_s:UInt32}, 9, 'UTC'))
    AND (empty({services:Array(String)}) OR ServiceName IN {services:Array(String)})
GROUP BY service, step;

-- name: figures
-- How many requests of each service and step were there, how many failed, and how long did they take?
SELECT
    service, step, sum(requests) AS all_requests, sum(errors) AS all_errors,
    quantilesDDMerge(0.01, 0.5, 0.95, 0.99)(durations) AS percentiles
FROM sources
WHERE length(service) <= 255 AND (NOT {has_after:Bool} OR service > {after:String})
GROUP BY service, step
ORDER BY service, step
LIMIT {limit:UInt32};

-- name: counts
-- The same without durations, which cost the most.
SELECT service, step, sum(requests) AS all_requests, sum(errors) AS all_errors, [nan, nan, nan] AS percentiles
FROM sources
WHERE length(service) <= 255 AND (NOT {has_after:Bool} OR service > {after:String})
GROUP BY service, step
ORDER BY service, step
LIMIT {limit:UInt32};

-- name: series
-- Figures of one service: first a row for the whole range, then one per step.
SELECT
    grouping(step) AS is_whole, step, sum(requests) AS all_requests, sum(errors) AS all_errors,
    quantilesDDMerge(0.01, 0.5, 0.95, 0.99)(durations) AS percentiles
FROM sources
WHERE length(service) <= 255
GROUP BY GROUPING SETS ((), (step))
HAVING all_requests > 0
ORDER BY is_whole DESC, step
LIMIT {limit:UInt32};

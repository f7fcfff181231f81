-- Statements of `attention.py`. Requests and errors are defined as in `telemetry/`. Requests by minute and by hour are
-- read from the projections `requests_by_minute` and `requests_by_hour`, which have the same expressions.

-- name: exceptions
-- Which groups of exceptions were seen most in the last hour, and in the last day, and what are they? Exceptions are
-- counted as in `telemetry/exception_groups.sql`, also below.
SELECT
    toString(environment_id) AS environment,
    group_id,
    uniqCombined64(if(trace_id != '' AND source != 'event', sipHash64(trace_id, kind, message), identity) AS exception) AS day_count,
    uniqCombined64If(exception, timestamp >= fromUnixTimestamp64Micro({hour_us:Int64}, 'UTC')) AS hour_count,
    toUnixTimestamp64Micro(max(timestamp)) AS last_us,
    substringUTF8(any(kind), 1, 200) AS sample_kind,
    substringUTF8(any(message), 1, 300) AS sample_message,
    substringUTF8(any(service), 1, 200) AS sample_service
FROM pharos.exceptions
WHERE environment_id IN {environments:Array(String)}
    AND toDate(timestamp) >= toDate(fromUnixTimestamp64Micro({day_us:Int64}, 'UTC'))
    AND timestamp >= fromUnixTimestamp64Micro({day_us:Int64}, 'UTC')
    AND timestamp < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
    AND received_at >= fromUnixTimestamp64Micro({received_us:Int64}, 'UTC')
GROUP BY environment_id, group_id
ORDER BY hour_count DESC, day_count DESC, group_id
LIMIT {limit:UInt32};

-- name: first_seen
-- When were these groups seen first, as far back as exceptions are kept?
SELECT toString(environment_id) AS environment, group_id, toUnixTimestamp64Micro(min(timestamp)) AS first_us
FROM pharos.exceptions
WHERE environment_id IN {environments:Array(String)} AND group_id IN {groups:Array(UInt64)}
GROUP BY environment_id, group_id;

-- name: exceptions_of_environments
-- How many exceptions did each environment have in the last day?
SELECT
    toString(environment_id) AS environment,
    uniqCombined64(if(trace_id != '' AND source != 'event', sipHash64(trace_id, kind, message), identity)) AS exceptions
FROM pharos.exceptions
WHERE environment_id IN {environments:Array(String)}
    AND toDate(timestamp) >= toDate(fromUnixTimestamp64Micro({day_us:Int64}, 'UTC'))
    AND timestamp >= fromUnixTimestamp64Micro({day_us:Int64}, 'UTC')
    AND timestamp < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
    AND received_at >= fromUnixTimestamp64Micro({received_us:Int64}, 'UTC')
GROUP BY environment_id;

-- name: event_minutes
SELECT
    toString(environment_id) AS environment, toString(service) AS service, count() AS requests,
    countIf(ifNull(status_code, 0) >= 500 OR severity IN ('error', 'critical')) AS errors,
    quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(least(greatest(ifNull(duration_ms, 0), 0.000001), 1e9), isNotNull(duration_ms)) AS durations
FROM pharos.telemetry_events
WHERE environment_id IN {environments:Array(String)} AND type IN ('request', 'job')
    AND toStartOfMinute(timestamp) >= toDateTime({begin_s:UInt32}, 'UTC')
    AND toStartOfMinute(timestamp) < toDateTime({end_s:UInt32}, 'UTC')
GROUP BY environment_id, service;

-- name: span_minutes
SELECT
    toString(EnvironmentId) AS environment, toString(ServiceName) AS service, count() AS requests,
    countIf(StatusCode = 'Error') AS errors,
    quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(least(greatest(Duration / 1e6, 0.000001), 1e9), SpanKind IN ('Server', 'Consumer')) AS durations
FROM pharos.otel_traces
WHERE EnvironmentId IN {environments:Array(String)} AND SpanKind IN ('Server', 'Consumer')
    AND toStartOfMinute(Timestamp) >= toDateTime({begin_s:UInt32}, 'UTC')
    AND toStartOfMinute(Timestamp) < toDateTime({end_s:UInt32}, 'UTC')
GROUP BY EnvironmentId, ServiceName;

-- name: event_hours
SELECT
    toString(environment_id) AS environment, toString(service) AS service, count() AS requests,
    countIf(ifNull(status_code, 0) >= 500 OR severity IN ('error', 'critical')) AS errors,
    quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(least(greatest(ifNull(duration_ms, 0), 0.000001), 1e9), isNotNull(duration_ms)) AS durations
FROM pharos.telemetry_events
WHERE environment_id IN {environments:Array(String)} AND type IN ('request', 'job')
    AND toStartOfHour(timestamp) >= toDateTime({begin_s:UInt32}, 'UTC')
    AND toStartOfHour(timestamp) < toDateTime({end_s:UInt32}, 'UTC')
GROUP BY environment_id, service;

-- name: span_hours
SELECT
    toString(EnvironmentId) AS environment, toString(ServiceName) AS service, count() AS requests,
    countIf(StatusCode = 'Error') AS errors,
    quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(least(greatest(Duration / 1e6, 0.000001), 1e9), SpanKind IN ('Server', 'Consumer')) AS durations
FROM pharos.otel_traces
WHERE EnvironmentId IN {environments:Array(String)} AND SpanKind IN ('Server', 'Consumer')
    AND toStartOfHour(Timestamp) >= toDateTime({begin_s:UInt32}, 'UTC')
    AND toStartOfHour(Timestamp) < toDateTime({end_s:UInt32}, 'UTC')
GROUP BY EnvironmentId, ServiceName;

-- name: services
-- How many requests did each service serve, how many failed, and what is the 95th percentile of durations?
SELECT
    environment, service, sum(requests) AS all_requests, sum(errors) AS all_errors,
    quantilesDDMerge(0.01, 0.5, 0.95, 0.99)(durations)[2] AS p95
FROM sources
GROUP BY environment, service
ORDER BY all_errors DESC, all_requests DESC, environment, service
LIMIT {limit:UInt32};

-- name: visitors
-- How many visitors and page views did each site have in the last day?
SELECT site_id, uniqCombined64(visitor) AS visitors, countIf(NOT is_event) AS views
FROM pharos.pageviews
WHERE site_id IN {sites:Array(UInt64)}
    AND day >= toDate(fromUnixTimestamp64Micro({day_us:Int64}, 'UTC'))
    AND occurred_at >= fromUnixTimestamp64Micro({day_us:Int64}, 'UTC')
    AND occurred_at < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
    AND (NOT is_event OR name NOT IN ('Web Vital', 'Engagement'))
GROUP BY site_id;

-- Statements of `slowest_calls.py`, which joins some of the sources with UNION ALL. Whole hours are read from the projections
-- `calls_by_hour`, and days from `calls_by_day`; the expressions must stay the same as there. A call is a route, a job or a statement of a service.

-- name: event_days
SELECT
    toString(service) AS service_name, toString(type) AS kind, multiIf(
        type = 'request', substringUTF8(if(notEmpty(route), route, name), 1, 500),
        type = 'job', substringUTF8(name, 1, 500),
        type = 'query', substringUTF8(if(notEmpty(title), title, name), 1, 500),
        '') AS call_name,
    count() AS calls, countIf(ifNull(status_code, 0) >= 500 OR severity IN ('error', 'critical')) AS errors, sum(least(greatest(ifNull(duration_ms, 0), 0), 1e9)) AS total_ms, 'event' AS signal
FROM pharos.telemetry_events
WHERE environment_id = {environment:String} AND type IN {types:Array(String)}
    AND toDate(timestamp) >= toDate(toDateTime({days_begin_s:UInt32}, 'UTC'))
    AND toDate(timestamp) < toDate(toDateTime({days_end_s:UInt32}, 'UTC'))
    AND ({service:String} = '' OR service = {service:String})
GROUP BY service_name, kind, call_name;

-- name: event_hours
SELECT
    toString(service) AS service_name, toString(type) AS kind, multiIf(
        type = 'request', substringUTF8(if(notEmpty(route), route, name), 1, 500),
        type = 'job', substringUTF8(name, 1, 500),
        type = 'query', substringUTF8(if(notEmpty(title), title, name), 1, 500),
        '') AS call_name,
    count() AS calls, countIf(ifNull(status_code, 0) >= 500 OR severity IN ('error', 'critical')) AS errors, sum(least(greatest(ifNull(duration_ms, 0), 0), 1e9)) AS total_ms, 'event' AS signal
FROM pharos.telemetry_events
WHERE environment_id = {environment:String} AND type IN {types:Array(String)}
    AND toStartOfHour(timestamp) >= toDateTime({hours_begin_s:UInt32}, 'UTC')
    AND toStartOfHour(timestamp) < toDateTime({hours_end_s:UInt32}, 'UTC')
    AND (toStartOfHour(timestamp) < toDateTime({days_begin_s:UInt32}, 'UTC')
        OR toStartOfHour(timestamp) >= toDateTime({days_end_s:UInt32}, 'UTC'))
    AND ({service:String} = '' OR service = {service:String})
GROUP BY service_name, kind, call_name;

-- name: event_rows
SELECT
    toString(service) AS service_name, toString(type) AS kind, multiIf(
        type = 'request', substringUTF8(if(notEmpty(route), route, name), 1, 500),
        type = 'job', substringUTF8(name, 1, 500),
        type = 'query', substringUTF8(if(notEmpty(title), title, name), 1, 500),
        '') AS call_name,
    count() AS calls, countIf(ifNull(status_code, 0) >= 500 OR severity IN ('error', 'critical')) AS errors, sum(least(greatest(ifNull(duration_ms, 0), 0), 1e9)) AS total_ms, 'event' AS signal
FROM pharos.telemetry_events
WHERE environment_id = {environment:String} AND type IN {types:Array(String)}
    AND toDate(timestamp) IN {row_days:Array(Date)}
    AND timestamp >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')
    AND timestamp < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
    AND (timestamp < toDateTime64({minutes_begin_s:UInt32}, 6, 'UTC') OR timestamp >= toDateTime64({minutes_end_s:UInt32}, 6, 'UTC'))
    AND ({service:String} = '' OR service = {service:String})
GROUP BY service_name, kind, call_name;

-- name: span_days
SELECT
    toString(ServiceName) AS service_name, multiIf(SpanKind = 'Server', 'request', SpanKind = 'Consumer', 'job', 'query') AS kind, multiIf(
        SpanKind IN ('Server', 'Consumer'), substringUTF8(SpanName, 1, 500),
        SpanKind = 'Client' AND (notEmpty(SpanAttributes['db.system.name']) OR notEmpty(SpanAttributes['db.system'])),
        substringUTF8(
            multiIf(
                notEmpty(SpanAttributes['db.query.text']), SpanAttributes['db.query.text'],
                notEmpty(SpanAttributes['db.statement']), SpanAttributes['db.statement'], SpanName
            ), 1, 500
        ),
        '') AS call_name,
    count() AS calls, countIf(StatusCode = 'Error') AS errors, sum(least(greatest(Duration / 1e6, 0), 1e9)) AS total_ms, 'span' AS signal
FROM pharos.otel_traces
WHERE EnvironmentId = {environment:String} AND SpanKind IN {kinds:Array(String)}
    AND toDate(Timestamp) >= toDate(toDateTime({days_begin_s:UInt32}, 'UTC'))
    AND toDate(Timestamp) < toDate(toDateTime({days_end_s:UInt32}, 'UTC'))
    AND ({service:String} = '' OR ServiceName = {service:String})
    -- Spans of the kind Client that call no database.
    AND (SpanKind != 'Client' OR call_name != '')
GROUP BY service_name, kind, call_name;

-- name: span_hours
SELECT
    toString(ServiceName) AS service_name, multiIf(SpanKind = 'Server', 'request', SpanKind = 'Consumer', 'job', 'query') AS kind, multiIf(
        SpanKind IN ('Server', 'Consumer'), substringUTF8(SpanName, 1, 500),
        SpanKind = 'Client' AND (notEmpty(SpanAttributes['db.system.name']) OR notEmpty(SpanAttributes['db.system'])),
        substringUTF8(
            multiIf(
                notEmpty(SpanAttributes['db.query.text']), SpanAttributes['db.query.text'],
                notEmpty(SpanAttributes['db.statement']), SpanAttributes['db.statement'], SpanName
            ), 1, 500
        ),
        '') AS call_name,
    count() AS calls, countIf(StatusCode = 'Error') AS errors, sum(least(greatest(Duration / 1e6, 0), 1e9)) AS total_ms, 'span' AS signal
FROM pharos.otel_traces
WHERE EnvironmentId = {environment:String} AND SpanKind IN {kinds:Array(String)}
    AND toStartOfHour(Timestamp) >= toDateTime({hours_begin_s:UInt32}, 'UTC')
    AND toStartOfHour(Timestamp) < toDateTime({hours_end_s:UInt32}, 'UTC')
    AND (toStartOfHour(Timestamp) < toDateTime({days_begin_s:UInt32}, 'UTC')
        OR toStartOfHour(Timestamp) >= toDateTime({days_end_s:UInt32}, 'UTC'))
    AND ({service:String} = '' OR ServiceName = {service:String})
    -- Spans of the kind Client that call no database.
    AND (SpanKind != 'Client' OR call_name != '')
GROUP BY service_name, kind, call_name;

-- name: span_rows
SELECT
    toString(ServiceName) AS service_name, multiIf(SpanKind = 'Server', 'request', SpanKind = 'Consumer', 'job', 'query') AS kind, multiIf(
        SpanKind IN ('Server', 'Consumer'), substringUTF8(SpanName, 1, 500),
        SpanKind = 'Client' AND (notEmpty(SpanAttributes['db.system.name']) OR notEmpty(SpanAttributes['db.system'])),
        substringUTF8(
            multiIf(
                notEmpty(SpanAttributes['db.query.text']), SpanAttributes['db.query.text'],
                notEmpty(SpanAttributes['db.statement']), SpanAttributes['db.statement'], SpanName
            ), 1, 500
        ),
        '') AS call_name,
    count() AS calls, countIf(StatusCode = 'Error') AS errors, sum(least(greatest(Duration / 1e6, 0), 1e9)) AS total_ms, 'span' AS signal
FROM pharos.otel_traces
WHERE EnvironmentId = {environment:String} AND SpanKind IN {kinds:Array(String)}
    AND toDate(Timestamp) IN {row_days:Array(Date)}
    AND Timestamp >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')
    AND Timestamp < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
    AND (Timestamp < toDateTime64({minutes_begin_s:UInt32}, 9, 'UTC') OR Timestamp >= toDateTime64({minutes_end_s:UInt32}, 9, 'UTC'))
    AND ({service:String} = '' OR ServiceName = {service:String})
    -- Spans of the kind Client that call no database.
    AND (SpanKind != 'Client' OR call_name != '')
GROUP BY service_name, kind, call_name;

-- name: event_days_durations
SELECT
    toString(service) AS service_name, toString(type) AS kind, multiIf(
        type = 'request', substringUTF8(if(notEmpty(route), route, name), 1, 500),
        type = 'job', substringUTF8(name, 1, 500),
        type = 'query', substringUTF8(if(notEmpty(title), title, name), 1, 500),
        '') AS call_name,
    count() AS calls, countIf(ifNull(status_code, 0) >= 500 OR severity IN ('error', 'critical')) AS errors, sum(least(greatest(ifNull(duration_ms, 0), 0), 1e9)) AS total_ms,
    quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(least(greatest(ifNull(duration_ms, 0), 0.000001), 1e9), isNotNull(duration_ms)) AS durations
FROM pharos.telemetry_events
WHERE environment_id = {environment:String} AND type IN {types:Array(String)}
    AND toDate(timestamp) >= toDate(toDateTime({days_begin_s:UInt32}, 'UTC'))
    AND toDate(timestamp) < toDate(toDateTime({days_end_s:UInt32}, 'UTC'))
    AND ({service:String} = '' OR service = {service:String})
    AND (service, call_name) IN {calls:Array(Tuple(String, String))}
GROUP BY service_name, kind, call_name;

-- name: event_hours_durations
SELECT
    toString(service) AS service_name, toString(type) AS kind, multiIf(
        type = 'request', substringUTF8(if(notEmpty(route), route, name), 1, 500),
        type = 'job', substringUTF8(name, 1, 500),
        type = 'query', substringUTF8(if(notEmpty(title), title, name), 1, 500),
        '') AS call_name,
    count() AS calls, countIf(ifNull(status_code, 0) >= 500 OR severity IN ('error', 'critical')) AS errors, sum(least(greatest(ifNull(duration_ms, 0), 0), 1e9)) AS total_ms,
    quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(least(greatest(ifNull(duration_ms, 0), 0.000001), 1e9), isNotNull(duration_ms)) AS durations
FROM pharos.telemetry_events
WHERE environment_id = {environment:String} AND type IN {types:Array(String)}
    AND toStartOfHour(timestamp) >= toDateTime({hours_begin_s:UInt32}, 'UTC')
    AND toStartOfHour(timestamp) < toDateTime({hours_end_s:UInt32}, 'UTC')
    AND (toStartOfHour(timestamp) < toDateTime({days_begin_s:UInt32}, 'UTC')
        OR toStartOfHour(timestamp) >= toDateTime({days_end_s:UInt32}, 'UTC'))
    AND ({service:String} = '' OR service = {service:String})
    AND (service, call_name) IN {calls:Array(Tuple(String, String))}
GROUP BY service_name, kind, call_name;

-- name: event_rows_durations
SELECT
    toString(service) AS service_name, toString(type) AS kind, multiIf(
        type = 'request', substringUTF8(if(notEmpty(route), route, name), 1, 500),
        type = 'job', substringUTF8(name, 1, 500),
        type = 'query', substringUTF8(if(notEmpty(title), title, name), 1, 500),
        '') AS call_name,
    count() AS calls, countIf(ifNull(status_code, 0) >= 500 OR severity IN ('error', 'critical')) AS errors, sum(least(greatest(ifNull(duration_ms, 0), 0), 1e9)) AS total_ms,
    quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(least(greatest(ifNull(duration_ms, 0), 0.000001), 1e9), isNotNull(duration_ms)) AS durations
FROM pharos.telemetry_events
WHERE environment_id = {environment:String} AND type IN {types:Array(String)}
    AND toDate(timestamp) IN {row_days:Array(Date)}
    AND timestamp >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')
    AND timestamp < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
    AND (timestamp < toDateTime64({minutes_begin_s:UInt32}, 6, 'UTC') OR timestamp >= toDateTime64({minutes_end_s:UInt32}, 6, 'UTC'))
    AND ({service:String} = '' OR service = {service:String})
    AND (empty({calls:Array(Tuple(String, String))}) OR (service, call_name) IN {calls:Array(Tuple(String, String))})
GROUP BY service_name, kind, call_name;

-- name: span_days_durations
SELECT
    toString(ServiceName) AS service_name, multiIf(SpanKind = 'Server', 'request', SpanKind = 'Consumer', 'job', 'query') AS kind, multiIf(
        SpanKind IN ('Server', 'Consumer'), substringUTF8(SpanName, 1, 500),
        SpanKind = 'Client' AND (notEmpty(SpanAttributes['db.system.name']) OR notEmpty(SpanAttributes['db.system'])),
        substringUTF8(
            multiIf(
                notEmpty(SpanAttributes['db.query.text']), SpanAttributes['db.query.text'],
                notEmpty(SpanAttributes['db.statement']), SpanAttributes['db.statement'], SpanName
            ), 1, 500
        ),
        '') AS call_name,
    count() AS calls, countIf(StatusCode = 'Error') AS errors, sum(least(greatest(Duration / 1e6, 0), 1e9)) AS total_ms,
    quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(
        least(greatest(Duration / 1e6, 0.000001), 1e9), SpanKind IN ('Server', 'Consumer', 'Client')) AS durations
FROM pharos.otel_traces
WHERE EnvironmentId = {environment:String} AND SpanKind IN {kinds:Array(String)}
    AND toDate(Timestamp) >= toDate(toDateTime({days_begin_s:UInt32}, 'UTC'))
    AND toDate(Timestamp) < toDate(toDateTime({days_end_s:UInt32}, 'UTC'))
    AND ({service:String} = '' OR ServiceName = {service:String})
    AND (ServiceName, call_name) IN {calls:Array(Tuple(String, String))}
GROUP BY service_name, kind, call_name;

-- name: span_hours_durations
SELECT
    toString(ServiceName) AS service_name, multiIf(SpanKind = 'Server', 'request', SpanKind = 'Consumer', 'job', 'query') AS kind, multiIf(
        SpanKind IN ('Server', 'Consumer'), substringUTF8(SpanName, 1, 500),
        SpanKind = 'Client' AND (notEmpty(SpanAttributes['db.system.name']) OR notEmpty(SpanAttributes['db.system'])),
        substringUTF8(
            multiIf(
                notEmpty(SpanAttributes['db.query.text']), SpanAttributes['db.query.text'],
                notEmpty(SpanAttributes['db.statement']), SpanAttributes['db.statement'], SpanName
            ), 1, 500
        ),
        '') AS call_name,
    count() AS calls, countIf(StatusCode = 'Error') AS errors, sum(least(greatest(Duration / 1e6, 0), 1e9)) AS total_ms,
    quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(
        least(greatest(Duration / 1e6, 0.000001), 1e9), SpanKind IN ('Server', 'Consumer', 'Client')) AS durations
FROM pharos.otel_traces
WHERE EnvironmentId = {environment:String} AND SpanKind IN {kinds:Array(String)}
    AND toStartOfHour(Timestamp) >= toDateTime({hours_begin_s:UInt32}, 'UTC')
    AND toStartOfHour(Timestamp) < toDateTime({hours_end_s:UInt32}, 'UTC')
    AND (toStartOfHour(Timestamp) < toDateTime({days_begin_s:UInt32}, 'UTC')
        OR toStartOfHour(Timestamp) >= toDateTime({days_end_s:UInt32}, 'UTC'))
    AND ({service:String} = '' OR ServiceName = {service:String})
    AND (ServiceName, call_name) IN {calls:Array(Tuple(String, String))}
GROUP BY service_name, kind, call_name;

-- name: span_rows_durations
SELECT
    toString(ServiceName) AS service_name, multiIf(SpanKind = 'Server', 'request', SpanKind = 'Consumer', 'job', 'query') AS kind, multiIf(
        SpanKind IN ('Server', 'Consumer'), substringUTF8(SpanName, 1, 500),
        SpanKind = 'Client' AND (notEmpty(SpanAttributes['db.system.name']) OR notEmpty(SpanAttributes['db.system'])),
        substringUTF8(
            multiIf(
                notEmpty(SpanAttributes['db.query.text']), SpanAttributes['db.query.text'],
                notEmpty(SpanAttributes['db.statement']), SpanAttributes['db.statement'], SpanName
            ), 1, 500
        ),
        '') AS call_name,
    count() AS calls, countIf(StatusCode = 'Error') AS errors, sum(least(greatest(Duration / 1e6, 0), 1e9)) AS total_ms,
    quantilesDDStateIf(0.01, 0.5, 0.95, 0.99)(
        least(greatest(Duration / 1e6, 0.000001), 1e9), SpanKind IN ('Server', 'Consumer', 'Client')) AS durations
FROM pharos.otel_traces
WHERE EnvironmentId = {environment:String} AND SpanKind IN {kinds:Array(String)}
    AND toDate(Timestamp) IN {row_days:Array(Date)}
    AND Timestamp >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')
    AND Timestamp < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
    AND (Timestamp < toDateTime64({minutes_begin_s:UInt32}, 9, 'UTC') OR Timestamp >= toDateTime64({minutes_end_s:UInt32}, 9, 'UTC'))
    AND ({service:String} = '' OR ServiceName = {service:String})
    AND (empty({calls:Array(Tuple(String, String))}) OR (ServiceName, call_name) IN {calls:Array(Tuple(String, String))})
    -- Spans of the kind Client that call no database.
    AND (SpanKind != 'Client' OR call_name != '')
GROUP BY service_name, kind, call_name;

-- name: top_calls
-- Which calls took the most time, failed most often or were made most often, how many calls are there,
-- and which sources have them?
SELECT
    service_name, kind, call_name, sum(calls) AS all_calls, sum(errors) AS all_errors, sum(total_ms) AS all_ms,
    count() OVER () AS found, groupUniqArray(signal) AS signals
FROM sources
GROUP BY service_name, kind, call_name
ORDER BY
    multiIf({sort:String} = 'errors', toFloat64(all_errors), {sort:String} = 'calls', toFloat64(all_calls),
        {sort:String} = 'mean', all_ms / all_calls, all_ms) DESC,
    service_name, kind, call_name
LIMIT {limit:UInt32};

-- name: top_calls_with_percentiles
-- The same, and how long did they take?
SELECT
    service_name, kind, call_name, sum(calls) AS all_calls, sum(errors) AS all_errors, sum(total_ms) AS all_ms,
    count() OVER () AS found, quantilesDDMerge(0.01, 0.5, 0.95, 0.99)(durations) AS percentiles
FROM sources
GROUP BY service_name, kind, call_name
ORDER BY
    multiIf({sort:String} = 'errors', toFloat64(all_errors), {sort:String} = 'calls', toFloat64(all_calls),
        {sort:String} = 'mean', all_ms / all_calls, all_ms) DESC,
    service_name, kind, call_name
LIMIT {limit:UInt32};

-- name: percentiles
-- How long did these calls take?
SELECT service_name, kind, call_name, quantilesDDMerge(0.01, 0.5, 0.95, 0.99)(durations) AS percentiles
FROM sources
GROUP BY service_name, kind, call_name

-- Statements of `log_histogram.py`, which joins some of the sources with UNION ALL. Log records and severities are
-- defined as in `logs.sql`. Whole minutes are read from the projections `records_by_minute` and `requests_by_minute`.

-- name: record_minutes
SELECT intDiv(toUnixTimestamp(toStartOfMinute(Timestamp)), {step_s:UInt32}) AS step, toUInt8(SeverityNumber) AS number, count() AS records
FROM pharos.otel_logs
WHERE EnvironmentId = {environment:String}
    AND toStartOfMinute(Timestamp) >= toDateTime({minutes_begin_s:UInt32}, 'UTC')
    AND toStartOfMinute(Timestamp) < toDateTime({minutes_end_s:UInt32}, 'UTC')
    AND ({service:String} = '' OR ServiceName = {service:String})
    AND SeverityNumber >= {least_severity:UInt8}
GROUP BY step, number;

-- name: record_rows
SELECT intDiv(toUnixTimestamp(toDateTime(Timestamp)), {step_s:UInt32}) AS step, toUInt8(SeverityNumber) AS number, count() AS records
FROM pharos.otel_logs
WHERE EnvironmentId = {environment:String}
    AND toDate(Timestamp) IN {row_days:Array(Date)}
    AND Timestamp >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')
    AND Timestamp < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
    AND (Timestamp < toDateTime64({minutes_begin_s:UInt32}, 9, 'UTC') OR Timestamp >= toDateTime64({minutes_end_s:UInt32}, 9, 'UTC'))
    AND ({service:String} = '' OR ServiceName = {service:String})
    AND ({trace:String} = '' OR TraceId = {trace:String})
    AND SeverityNumber >= {least_severity:UInt8}
    AND (empty({words:Array(String)}) OR hasAllTokens(lower(Body), {words:Array(String)}))
GROUP BY step, number;

-- name: event_minutes
SELECT
    intDiv(toUnixTimestamp(toStartOfMinute(timestamp)), {step_s:UInt32}) AS step,
    toUInt8(transform(toString(severity), ['debug', 'info', 'warning', 'error', 'critical'], [5, 9, 13, 17, 21], 0)) AS number,
    count() AS records
FROM pharos.telemetry_events
WHERE environment_id = {environment:String} AND type = 'log'
    AND toStartOfMinute(timestamp) >= toDateTime({minutes_begin_s:UInt32}, 'UTC')
    AND toStartOfMinute(timestamp) < toDateTime({minutes_end_s:UInt32}, 'UTC')
    AND ({service:String} = '' OR service = {service:String})
    AND number >= {least_severity:UInt8}
GROUP BY step, number;

-- name: event_rows
SELECT
    intDiv(toUnixTimestamp(toDateTime(timestamp)), {step_s:UInt32}) AS step,
    toUInt8(transform(toString(severity), ['debug', 'info', 'warning', 'error', 'critical'], [5, 9, 13, 17, 21], 0)) AS number,
    count() AS records
FROM pharos.telemetry_events
WHERE environment_id = {environment:String} AND type = 'log'
    AND toDate(timestamp) IN {row_days:Array(Date)}
    AND timestamp >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')
    AND timestamp < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
    AND (timestamp < toDateTime64({minutes_begin_s:UInt32}, 6, 'UTC') OR timestamp >= toDateTime64({minutes_end_s:UInt32}, 6, 'UTC'))
    AND ({service:String} = '' OR service = {service:String})
    AND ({trace:String} = '' OR trace_id = {trace:String})
    AND number >= {least_severity:UInt8}
    AND (empty({words:Array(String)})
        OR hasAllTokens(if(type = 'log', lower(concat(name, ' ', title, ' ', details)), ''), {words:Array(String)}))
GROUP BY step, number;

-- name: histogram
-- How many records of each severity does each step have?
SELECT step, number, sum(records) AS all_records
FROM sources
GROUP BY step, number
ORDER BY step, number
LIMIT {limit:UInt32}

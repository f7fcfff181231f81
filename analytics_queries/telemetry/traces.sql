-- Statements of `traces.py`. A trace began when its first span did.

-- name: first_start
-- In which second does a window begin that has this many rows of the range? Returns no row if the
-- range has fewer. Reads the projection `by_start` from its end.
SELECT toUnixTimestamp(Start) AS start_s
FROM pharos.otel_traces_trace_id_ts
WHERE EnvironmentId = {environment:String}
    AND Start >= toDateTime({begin_s:UInt32}, 'UTC') AND Start < toDateTime({end_s:UInt32}, 'UTC')
ORDER BY Start DESC
LIMIT 1 OFFSET {rows_before:UInt32};

-- name: page
-- Which traces begin in this window, the newest first, after this one? Their other spans are read up to the
-- last span of any of them, at most a day. With a filter, one of the spans meets all conditions. With
-- `without_earlier`, traces that began on the day before are omitted, as `started_before` finds them.
WITH
    (
        SELECT toUnixTimestamp(max(End)) + 1
        FROM pharos.otel_traces_trace_id_ts
        WHERE EnvironmentId = {environment:String}
            AND Start >= toDateTime({begin_s:UInt32}, 'UTC') AND Start < toDateTime({end_s:UInt32}, 'UTC')
    ) AS past_last_s,
    fromUnixTimestamp64Nano({begin_ns:Int64}, 'UTC') AS begin,
    fromUnixTimestamp64Nano(
        greatest({end_ns:Int64}, least(toInt64(past_last_s), toInt64({begin_s:UInt32} + 86400)) * 1000000000), 'UTC'
    ) AS past_last
SELECT
    TraceId AS trace_id,
    min(toUnixTimestamp64Nano(Timestamp)) AS started_ns,
    argMin(substringUTF8(SpanName, 1, {longest_name:UInt32}), (ParentSpanId != '', Timestamp)) AS name,
    argMin(substringUTF8(ServiceName, 1, {longest_name:UInt32}), (ParentSpanId != '', Timestamp)) AS service,
    argMin(ParentSpanId = '', Timestamp) AS begins_with_root,
    (max(toUnixTimestamp64Nano(Timestamp) + toInt64(least(Duration, 1000000000000000000))) - started_ns) / 1e6 AS duration_ms,
    uniqExact(SpanId) AS spans,
    uniqExactIf(SpanId, StatusCode = 'Error') AS errors,
    arraySort(groupUniqArray(20)(substringUTF8(ServiceName, 1, {longest_name:UInt32}))) AS services
FROM pharos.otel_traces
WHERE EnvironmentId = {environment:String}
    AND toDate(Timestamp) >= toDate(begin) AND toDate(Timestamp) <= toDate(past_last)
    AND Timestamp >= begin AND Timestamp < past_last
    AND (NOT {has_filter:Bool} OR TraceId IN (
        SELECT TraceId
        FROM pharos.otel_traces
        WHERE EnvironmentId = {environment:String}
            AND toDate(Timestamp) >= toDate(begin) AND toDate(Timestamp) <= toDate(past_last)
            AND Timestamp >= begin AND Timestamp < past_last
            AND ({service:String} = '' OR ServiceName = {service:String})
            AND ({name:String} = '' OR SpanName = {name:String})
            AND (NOT {only_errors:Bool} OR StatusCode = 'Error')
            AND Duration >= {least_ns:UInt64}
    ))
GROUP BY TraceId
HAVING started_ns >= {from_ns:Int64} AND started_ns < {end_ns:Int64}
    AND (NOT {has_after:Bool} OR (started_ns, trace_id) < ({after_ns:Int64}, {after_trace:String}))
    AND (NOT {without_earlier:Bool} OR begins_with_root OR trace_id NOT IN (
        SELECT TraceId
        FROM pharos.otel_traces_trace_id_ts
        WHERE {without_earlier:Bool} AND EnvironmentId = {environment:String}
            AND Start >= toDateTime({begin_s:UInt32} - 86400, 'UTC') AND Start < toDateTime({begin_s:UInt32}, 'UTC')
            AND TraceId IN (
                SELECT TraceId
                FROM pharos.otel_traces
                WHERE {without_earlier:Bool} AND EnvironmentId = {environment:String}
                    AND toDate(Timestamp) >= toDate(begin) AND toDate(Timestamp) <= toDate(past_last)
                    AND Timestamp >= begin AND Timestamp < past_last
            )
    ))
ORDER BY started_ns DESC, trace_id DESC
LIMIT {limit:UInt32};

-- name: started_before
-- Which of these traces have a span of the day before this second?
SELECT DISTINCT TraceId
FROM pharos.otel_traces_trace_id_ts
WHERE EnvironmentId = {environment:String}
    AND Start >= toDateTime({begin_s:UInt32} - 86400, 'UTC') AND Start < toDateTime({begin_s:UInt32}, 'UTC')
    AND TraceId IN {traces:Array(String)};

-- What are the spans of a trace, in the order of their start? The table of trace times says between which seconds they lie. A
-- span that was sent twice is there once. Attributes that are longer than `longest_json` bytes are left out.
WITH
    (
        SELECT (min(Start), max(End))
        FROM pharos.otel_traces_trace_id_ts
        WHERE TraceId = {trace:String} AND EnvironmentId = {environment:String}
    ) AS seconds
SELECT
    SpanId AS span_id,
    ParentSpanId AS parent_span_id,
    toString(SpanName) AS name,
    toString(SpanKind) AS kind,
    toString(ServiceName) AS service,
    toUnixTimestamp64Nano(Timestamp) AS started_ns,
    Duration AS duration_ns,
    toString(StatusCode) AS status,
    substringUTF8(StatusMessage, 1, {longest_text:UInt32}) AS status_message,
    arraySum(value -> length(value), mapValues(SpanAttributes)) > {longest_json:UInt32} AS has_long_attributes,
    if(has_long_attributes, CAST(map(), 'Map(String, String)'), SpanAttributes) AS attributes,
    arraySlice(Events.Name, 1, {events:UInt32}) AS event_names,
    arrayMap(at -> toUnixTimestamp64Nano(at), arraySlice(Events.Timestamp, 1, {events:UInt32})) AS event_times_ns,
    arrayMap(
        event -> if(arraySum(value -> length(value), mapValues(event)) > {longest_json:UInt32},
            CAST(map(), 'Map(String, String)'), event),
        arraySlice(Events.Attributes, 1, {events:UInt32})
    ) AS event_attributes
FROM pharos.otel_traces
WHERE TraceId = {trace:String} AND EnvironmentId = {environment:String}
    AND toDate(Timestamp) >= toDate(seconds.1) AND toDate(Timestamp) <= toDate(seconds.2)
    AND toDateTime(Timestamp) >= seconds.1 AND toDateTime(Timestamp) <= seconds.2
ORDER BY started_ns, span_id, duration_ns DESC
LIMIT 1 BY span_id
LIMIT {limit:UInt32}

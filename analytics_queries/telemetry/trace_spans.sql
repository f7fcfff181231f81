-- What are the spans of a trace, in the order of their start? The table of trace times says between which seconds they lie. A
-- span that was sent twice is there once. Attributes of more than `longest_json` bytes are left out; and once the attributes,
-- events and status messages of the spans so far have `longest_trace` bytes, those of the others.
WITH
    (
        SELECT (min(Start), max(End))
        FROM pharos.otel_traces_trace_id_ts
        WHERE TraceId = {trace:String} AND EnvironmentId = {environment:String}
    ) AS seconds
SELECT
    span_id, parent_span_id, name, kind, service, started_ns, duration_ns, status,
    sum(
        length(shown_message) + arraySum(text -> length(text), arrayConcat(mapKeys(shown_attributes), mapValues(shown_attributes)))
        + arraySum((text, event) -> length(text) + arraySum(part -> length(part), arrayConcat(mapKeys(event), mapValues(event))),
            shown_names, shown_events)
    ) OVER (ORDER BY started_ns, span_id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) > {longest_trace:UInt64} AS is_bare,
    substringUTF8(shown_message, 1, if(is_bare, {longest_name:UInt32}, {longest_text:UInt32})) AS status_message,
    if(is_bare, CAST(map(), 'Map(String, String)'), shown_attributes) AS attributes,
    if(is_bare, [], shown_names) AS event_names,
    if(is_bare, [], shown_times) AS event_times_ns,
    if(is_bare, [], shown_events) AS event_attributes
FROM
(
    SELECT
        SpanId AS span_id,
        ParentSpanId AS parent_span_id,
        substringUTF8(SpanName, 1, {longest_name:UInt32}) AS name,
        toString(SpanKind) AS kind,
        substringUTF8(ServiceName, 1, {longest_name:UInt32}) AS service,
        toUnixTimestamp64Nano(Timestamp) AS started_ns,
        Duration AS duration_ns,
        toString(StatusCode) AS status,
        substringUTF8(StatusMessage, 1, {longest_text:UInt32}) AS shown_message,
        if(arraySum(text -> length(text), arrayConcat(mapKeys(SpanAttributes), mapValues(SpanAttributes))) > {longest_json:UInt32},
            CAST(map(), 'Map(String, String)'), CAST(SpanAttributes, 'Map(String, String)')) AS shown_attributes,
        arrayMap(text -> substringUTF8(text, 1, {longest_name:UInt32}), arraySlice(Events.Name, 1, {events:UInt32})) AS shown_names,
        arrayMap(at -> toUnixTimestamp64Nano(at), arraySlice(Events.Timestamp, 1, {events:UInt32})) AS shown_times,
        arrayMap(
            event -> if(arraySum(part -> length(part), arrayConcat(mapKeys(event), mapValues(event))) > {longest_json:UInt32},
                CAST(map(), 'Map(String, String)'), CAST(event, 'Map(String, String)')),
            arraySlice(Events.Attributes, 1, {events:UInt32})
        ) AS shown_events
    FROM pharos.otel_traces
    WHERE TraceId = {trace:String} AND EnvironmentId = {environment:String}
        AND toDate(Timestamp) >= toDate(seconds.1) AND toDate(Timestamp) <= toDate(seconds.2)
        AND toDateTime(Timestamp) >= seconds.1 AND toDateTime(Timestamp) <= seconds.2
    ORDER BY started_ns, span_id, duration_ns DESC
    LIMIT 1 BY span_id
    LIMIT {limit:UInt32}
)
ORDER BY started_ns, span_id, duration_ns DESC

-- What are the spans of a trace?
SELECT
    SpanId                              AS span_id,
    ParentSpanId                        AS parent_span_id,
    SpanName                            AS name,
    SpanKind                            AS kind,
    ServiceName                         AS service,
    toUnixTimestamp64Nano(Timestamp)    AS started_ns,
    Duration                            AS duration_ns,
    StatusCode                          AS status,
    StatusMessage                       AS status_message,
    SpanAttributes                      AS attributes,
    Events.Name                         AS event_names,
    arrayMap(at -> toUnixTimestamp64Nano(at), Events.Timestamp) AS event_times_ns,
    Events.Attributes                   AS event_attributes
FROM pharos.otel_traces
WHERE TraceId = {trace:String}
  AND ({environment:String} = '' OR EnvironmentId = {environment:String})
ORDER BY started_ns, span_id
LIMIT {limit:UInt32}

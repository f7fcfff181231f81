-- Which traces began last, of one environment or of all?
SELECT
    EnvironmentId                                                                   AS environment_id,
    TraceId                                                                         AS trace_id,
    min(Timestamp)                                                                  AS started_at,
    argMin(SpanName, (ParentSpanId != '', Timestamp))                               AS name,
    argMin(ServiceName, (ParentSpanId != '', Timestamp))                            AS service,
    (max(toUnixTimestamp64Nano(Timestamp) + toInt64(Duration)) - min(toUnixTimestamp64Nano(Timestamp))) / 1e6 AS duration_ms,
    count()                                                                         AS spans,
    countIf(StatusCode = 'Error')                                                   AS errors
FROM pharos.otel_traces
WHERE Timestamp >= fromUnixTimestamp64Milli({since_ms:Int64})
  AND ({environment:String} = '' OR EnvironmentId = {environment:String})
GROUP BY EnvironmentId, TraceId
HAVING ({service:String} = '' OR countIf(ServiceName = {service:String}) > 0)
   AND (NOT {only_errors:Bool} OR errors > 0)
   AND duration_ms >= {least_ms:Float64}
ORDER BY started_at DESC, trace_id
LIMIT {limit:UInt32}

-- What was logged last, over OTLP or as telemetry events?
SELECT *
FROM
(
    SELECT
        EnvironmentId AS environment_id, Timestamp AS at, SeverityNumber AS severity_number,
        if(SeverityText = '', toString(SeverityNumber), SeverityText) AS severity, ServiceName AS service,
        if(Body = '', EventName, Body) AS text, TraceId AS trace_id, SpanId AS span_id, LogAttributes AS attributes
    FROM pharos.otel_logs
    WHERE Timestamp >= fromUnixTimestamp64Milli({since_ms:Int64})
      AND ({environment:String} = '' OR EnvironmentId = {environment:String})
      AND ({service:String} = '' OR ServiceName = {service:String})
      AND ({trace:String} = '' OR TraceId = {trace:String})
      AND SeverityNumber >= {least_severity:UInt8}
      AND ({search:String} = '' OR positionCaseInsensitiveUTF8(Body, {search:String}) > 0)
    ORDER BY at DESC
    LIMIT {limit:UInt32}
    UNION ALL
    SELECT
        environment_id, toDateTime64(timestamp, 9, 'UTC') AS at,
        transform(toString(severity), ['debug', 'info', 'warning', 'error', 'critical'], [5, 9, 13, 17, 21], 0) AS severity_number,
        toString(severity) AS severity, toString(service) AS service,
        trim(concat(name, ' ', title, if(title = '' AND name = '', details, ''))) AS text, trace_id, span_id,
        CAST(map(), 'Map(String, String)') AS attributes
    FROM pharos.telemetry_events
    WHERE type = 'log'
      AND timestamp >= fromUnixTimestamp64Milli({since_ms:Int64})
      AND ({environment:String} = '' OR environment_id = {environment:String})
      AND ({service:String} = '' OR service = {service:String})
      AND ({trace:String} = '' OR trace_id = {trace:String})
      AND severity_number >= {least_severity:UInt8}
      AND ({search:String} = '' OR positionCaseInsensitiveUTF8(text, {search:String}) > 0)
    ORDER BY at DESC
    LIMIT {limit:UInt32}
)
ORDER BY at DESC
LIMIT {limit:UInt32}

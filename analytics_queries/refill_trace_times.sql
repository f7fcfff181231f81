-- Add to otel_traces_trace_id_ts the times of traces in this range of the log that its rows do not cover.
INSERT INTO pharos.otel_traces_trace_id_ts (TraceId, Start, End, EnvironmentId, ReceivedAt)
SELECT spans.TraceId, spans.first, spans.last, spans.EnvironmentId, spans.received
FROM
(
    SELECT TraceId, EnvironmentId, min(Timestamp) AS first, max(Timestamp) AS last, min(ReceivedAt) AS received
    FROM pharos.otel_traces
    WHERE log = {log:String} AND log_offset >= {first:UInt64} AND log_offset < {past_last:UInt64} AND TraceId != ''
    GROUP BY TraceId, EnvironmentId
) AS spans
LEFT JOIN
(
    SELECT TraceId, EnvironmentId, min(Start) AS first, max(End) AS last
    FROM pharos.otel_traces_trace_id_ts
    WHERE TraceId IN
    (
        SELECT TraceId
        FROM pharos.otel_traces
        WHERE log = {log:String} AND log_offset >= {first:UInt64} AND log_offset < {past_last:UInt64}
    )
    GROUP BY TraceId, EnvironmentId
) AS known USING (TraceId, EnvironmentId)
WHERE known.first > toDateTime(spans.first) OR known.last < toDateTime(spans.last)

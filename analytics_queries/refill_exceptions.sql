-- Add to `exceptions` what a view finds in this range of the log and the table lacks.
INSERT INTO pharos.exceptions
(
    environment_id, timestamp, received_at, source, service, version, fingerprint, kind, message, stack, identity, trace_id,
    span_id, user, reported_users, log, log_offset
)
SELECT
    environment_id, timestamp, received_at, source, service, version, fingerprint, kind, message, stack, identity, trace_id,
    span_id, user, reported_users, log, log_offset
FROM pharos.{view:Identifier}
WHERE log = {log:String} AND log_offset >= {first:UInt64} AND log_offset < {past_last:UInt64}
    AND (log_offset, identity, timestamp) NOT IN
    (
        SELECT log_offset, identity, timestamp
        FROM pharos.exceptions
        WHERE log = {log:String} AND log_offset >= {first:UInt64} AND log_offset < {past_last:UInt64}
    )

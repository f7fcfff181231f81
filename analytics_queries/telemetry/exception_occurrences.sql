-- Which exceptions of a group does a window of time hold, the newest first, after this one? An exception that is stored
-- twice after a crash is shown once. An exception that was reported as a span event and as a log record is shown as
-- two.
SELECT
    toUnixTimestamp64Nano(timestamp) AS time_ns,
    identity,
    toString(source) AS source_name,
    kind, message, stack,
    substringUTF8(service, 1, {longest_name:UInt32}) AS shown_service,
    substringUTF8(version, 1, {longest_name:UInt32}) AS shown_version,
    substringUTF8(trace_id, 1, {longest_name:UInt32}) AS shown_trace_id,
    substringUTF8(span_id, 1, {longest_name:UInt32}) AS shown_span_id,
    substringUTF8(user, 1, {longest_name:UInt32}) AS shown_user
FROM pharos.exceptions
WHERE environment_id = {environment:String} AND group_id = {group:UInt64}
    AND toDate(timestamp) >= toDate(fromUnixTimestamp64Nano({begin_ns:Int64}, 'UTC'))
    AND toDate(timestamp) <= toDate(fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC'))
    AND timestamp >= fromUnixTimestamp64Nano({begin_ns:Int64}, 'UTC')
    AND timestamp < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    AND (NOT {has_after:Bool} OR (time_ns, identity, source_name) < ({after_ns:Int64}, {after_identity:UInt64}, {after_source:String}))
ORDER BY timestamp DESC, identity DESC, source_name DESC
LIMIT 1 BY time_ns, identity, source_name
LIMIT {limit:UInt32}

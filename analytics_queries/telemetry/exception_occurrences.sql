-- Which exceptions of a group does a window of time hold, the newest first, after this one? An exception is shown once, as
-- its newest row, if several rows report it (see `exception_groups.sql`), which may be later than the window.
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
    AND (time_ns, identity, source_name) IN
    (
        SELECT newest
        FROM
        (
            SELECT max((toUnixTimestamp64Nano(timestamp), identity, toString(source))) AS newest
            FROM pharos.exceptions
            WHERE environment_id = {environment:String} AND group_id = {group:UInt64}
                AND toDate(timestamp) >= toDate(fromUnixTimestamp64Nano({begin_ns:Int64}, 'UTC'))
                AND toDate(timestamp) <= toDate(fromUnixTimestamp64Nano({last_ns:Int64}, 'UTC'))
                AND timestamp >= fromUnixTimestamp64Nano({begin_ns:Int64}, 'UTC')
                AND timestamp < fromUnixTimestamp64Nano({last_ns:Int64}, 'UTC')
            GROUP BY if(trace_id != '' AND source != 'event', sipHash64(trace_id, kind, message), identity)
        )
        WHERE newest.1 < {end_ns:Int64}
            AND (NOT {has_after:Bool} OR newest < ({after_ns:Int64}, {after_identity:UInt64}, {after_source:String}))
        ORDER BY newest DESC
        LIMIT {limit:UInt32}
    )
ORDER BY timestamp DESC, identity DESC, source_name DESC
LIMIT 1 BY time_ns, identity, source_name
LIMIT {limit:UInt32}

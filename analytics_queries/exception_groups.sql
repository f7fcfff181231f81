-- Which exceptions were received, grouped into issues?
-- A group is the sender's fingerprint, else the title without what changes from case to case and the innermost frame
-- without its line. The same exception may come as an event of its span and as a log record: with trace and span it
-- counts once.
WITH
    -- What changes from case to case: e-mail addresses, UUIDs, URLs' and quotes' insides, hexadecimal and decimal numbers.
    replaceRegexpAll(
        replaceRegexpAll(
            replaceRegexpAll(
                replaceRegexpAll(
                    replaceRegexpAll(
                        replaceRegexpAll(substring(message, 1, 1000), '[\\w.+-]+@[\\w-]+(\\.[\\w-]+)+', '<email>'),
                        '(?i)\\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\\b', '<uuid>'),
                    '\\bhttps?://[^\\s"\'<>]+', '<url>'),
                '"[^"]*"|\'[^\']*\'|`[^`]*`', '<text>'),
            '\\b(0[xX][0-9a-fA-F]+|[0-9a-fA-F]*[0-9][0-9a-fA-F]{7,}|[0-9a-fA-F]{7,}[0-9][0-9a-fA-F]*)\\b', '<hex>'),
        '[0-9]+([.,:][0-9]+)*', '<number>') AS plain_message,
    extractAllGroupsVertical(stack, 'File "([^"]+)", line [0-9]+, in ([^\\n]+)') AS python_frames,
    multiIf(
        -- Python prints the innermost frame last, the others first.
        notEmpty(python_frames), concat(python_frames[-1][1], ' in ', python_frames[-1][2]),
        extract(stack, '(?m)^\\s*at ([^\\n]+)$') != '', extract(stack, '(?m)^\\s*at ([^\\n]+)$'),
        extract(stack, '(?m)^\\s*(?:from )?([^\\s:]+\\.rb:[0-9]+:in [^\\n]+)$') != '', extract(stack, '(?m)^\\s*(?:from )?([^\\s:]+\\.rb:[0-9]+:in [^\\n]+)$'),
        extract(stack, '(?m)^\\s+(\\S+\\.go):[0-9]+') != '', extract(stack, '(?m)^\\s+(\\S+\\.go):[0-9]+'),
        '') AS raw_frame,
    replaceRegexpAll(raw_frame, ':[0-9]+', '') AS frame,
    if(fingerprint != '', fingerprint, concat(kind, '\n', plain_message, '\n', frame)) AS grouping
SELECT
    environment_id,
    lower(hex(sipHash64(environment_id, fingerprint != '', grouping)))      AS id,
    uniqExact(identity)                                                     AS count,
    min(at)                                                                 AS first_seen,
    max(at)                                                                 AS last_seen,
    greatest(toUInt64(max(reported_users)), uniqExactIf(user, user != ''))      AS affected_users,
    arraySort(groupUniqArray(5)(service))                                   AS services,
    any(kind)                                                               AS exception_type,
    argMax(message, at)                                                     AS newest_message,
    any(frame)                                                              AS top_frame,
    argMax(stack, at)                                                       AS newest_stack,
    argMax(trace_id, at)                                                    AS newest_trace_id
FROM
(
    SELECT
        environment_id, toDateTime64(timestamp, 9, 'UTC') AS at, toString(service) AS service, fingerprint, trace_id,
        if(name != '' AND title != '', name, '')          AS kind,
        multiIf(title != '', title, name != '', name, splitByChar('\n', details)[1]) AS message,
        details                                           AS stack,
        toUInt64(greatest(ifNull(affected_users, 0), 0))  AS reported_users,
        JSONExtractString(attributes, 'user.id')          AS user,
        sipHash64(log, log_offset, position)              AS identity
    FROM pharos.telemetry_events
    WHERE type = 'exception'
      AND timestamp >= fromUnixTimestamp64Milli({since_ms:Int64})
      AND ({environment:String} = '' OR environment_id = {environment:String})
    UNION ALL
    SELECT
        EnvironmentId AS environment_id, event_at AS at, toString(ServiceName) AS service, '' AS fingerprint,
        TraceId AS trace_id, event['exception.type'] AS kind, event['exception.message'] AS message,
        event['exception.stacktrace'] AS stack, toUInt64(0) AS reported_users,
        if(SpanAttributes['user.id'] != '', SpanAttributes['user.id'], SpanAttributes['enduser.id']) AS user,
        sipHash64(TraceId, SpanId, kind, message) AS identity
    FROM pharos.otel_traces
    ARRAY JOIN Events.Name AS event_name, Events.Timestamp AS event_at, Events.Attributes AS event
    WHERE event_name = 'exception'
      AND Timestamp >= fromUnixTimestamp64Milli({since_ms:Int64})
      AND ({environment:String} = '' OR EnvironmentId = {environment:String})
    UNION ALL
    SELECT
        EnvironmentId AS environment_id, Timestamp AS at, toString(ServiceName) AS service, '' AS fingerprint,
        TraceId AS trace_id, LogAttributes['exception.type'] AS kind,
        if(LogAttributes['exception.message'] != '', LogAttributes['exception.message'], Body) AS message,
        LogAttributes['exception.stacktrace'] AS stack, toUInt64(0) AS reported_users,
        if(LogAttributes['user.id'] != '', LogAttributes['user.id'], LogAttributes['enduser.id']) AS user,
        if(TraceId != '' AND SpanId != '', sipHash64(TraceId, SpanId, kind, message), sipHash64(log, log_offset, Timestamp, Body)) AS identity
    FROM pharos.otel_logs
    WHERE LogAttributes['exception.type'] != ''
      AND Timestamp >= fromUnixTimestamp64Milli({since_ms:Int64})
      AND ({environment:String} = '' OR EnvironmentId = {environment:String})
)
GROUP BY environment_id, fingerprint != '', grouping
HAVING {id:String} = '' OR id = {id:String}
ORDER BY last_seen DESC, id
LIMIT {limit:UInt32}

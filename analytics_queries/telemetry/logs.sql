-- Statements of `logs.py`. Logs are OTLP records, and telemetry events of the type `log`. They are in descending order
-- of time, place in the event log, and content. Indexes on the same expressions find words; `lower` only converts
-- ASCII.

-- name: page_end
-- At which time and place in the event log does a page end, and how many records has it? This statement
-- reads only narrow columns. With `lists_places` it also returns the places of the records.
SELECT
    (min((time_ns, offset, log_id)) AS last).1, last.2, last.3, count(),
    groupArrayIf((time_ns, offset, log_id), {lists_places:Bool})
FROM
(
    SELECT time_ns, offset, log_id
    FROM
    (
        SELECT toUnixTimestamp64Nano(Timestamp) AS time_ns, log_offset AS offset, toUInt32(cityHash64(log)) AS log_id
        FROM pharos.otel_logs
        WHERE EnvironmentId = {environment:String}
            AND toDate(Timestamp) >= toDate(fromUnixTimestamp64Nano({begin_ns:Int64}, 'UTC'))
            AND toDate(Timestamp) <= toDate(fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC'))
            AND Timestamp >= fromUnixTimestamp64Nano({begin_ns:Int64}, 'UTC')
            AND Timestamp < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
            AND (time_ns, log_offset, log_id) <= ({after_ns:Int64}, {after_offset:UInt64}, {after_log:UInt32})
            AND ({service:String} = '' OR ServiceName = {service:String})
            AND ({trace:String} = '' OR TraceId = {trace:String})
            AND SeverityNumber >= {least_severity:UInt8}
            AND (empty({words:Array(String)}) OR hasAllTokens(lower(Body), {words:Array(String)}))
        ORDER BY Timestamp DESC, log_offset DESC, log_id DESC
        LIMIT {rows:UInt32}
        UNION ALL
        SELECT toUnixTimestamp64Micro(timestamp) * 1000 AS time_ns, log_offset AS offset, toUInt32(cityHash64(log)) AS log_id
        FROM pharos.telemetry_events
        WHERE environment_id = {environment:String} AND type = 'log'
            AND toDate(timestamp) >= toDate(fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC'))
            AND toDate(timestamp) <= toDate(fromUnixTimestamp64Micro({end_us:Int64}, 'UTC'))
            AND timestamp >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')
            AND timestamp < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
            AND (time_ns, log_offset, log_id) <= ({after_ns:Int64}, {after_offset:UInt64}, {after_log:UInt32})
            AND ({service:String} = '' OR service = {service:String})
            AND ({trace:String} = '' OR trace_id = {trace:String})
            AND transform(toString(severity), ['debug', 'info', 'warning', 'error', 'critical'], [5, 9, 13, 17, 21], 0)
                >= {least_severity:UInt8}
            AND (empty({words:Array(String)})
                OR hasAllTokens(if(type = 'log', lower(concat(name, ' ', title, ' ', details)), ''), {words:Array(String)}))
        ORDER BY timestamp DESC, log_offset DESC, log_id DESC
        LIMIT {rows:UInt32}
    )
    ORDER BY time_ns DESC, offset DESC, log_id DESC
    LIMIT {rows:UInt32}
);

-- name: following_end
-- The same of the records after a moment, the oldest first.
SELECT (max((time_ns, offset, log_id)) AS last).1, last.2, last.3, count()
FROM
(
    SELECT time_ns, offset, log_id
    FROM
    (
        SELECT toUnixTimestamp64Nano(Timestamp) AS time_ns, log_offset AS offset, toUInt32(cityHash64(log)) AS log_id
        FROM pharos.otel_logs
        WHERE EnvironmentId = {environment:String}
            AND toDate(Timestamp) >= toDate(fromUnixTimestamp64Nano({begin_ns:Int64}, 'UTC'))
            AND toDate(Timestamp) <= toDate(fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC'))
            AND Timestamp >= fromUnixTimestamp64Nano({begin_ns:Int64}, 'UTC')
            AND Timestamp < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
            AND ({service:String} = '' OR ServiceName = {service:String})
            AND ({trace:String} = '' OR TraceId = {trace:String})
            AND SeverityNumber >= {least_severity:UInt8}
            AND (empty({words:Array(String)}) OR hasAllTokens(lower(Body), {words:Array(String)}))
        ORDER BY Timestamp, log_offset, log_id
        LIMIT {rows:UInt32}
        UNION ALL
        SELECT toUnixTimestamp64Micro(timestamp) * 1000 AS time_ns, log_offset AS offset, toUInt32(cityHash64(log)) AS log_id
        FROM pharos.telemetry_events
        WHERE environment_id = {environment:String} AND type = 'log'
            AND toDate(timestamp) >= toDate(fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC'))
            AND toDate(timestamp) <= toDate(fromUnixTimestamp64Micro({end_us:Int64}, 'UTC'))
            AND timestamp >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')
            AND timestamp < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
            AND ({service:String} = '' OR service = {service:String})
            AND ({trace:String} = '' OR trace_id = {trace:String})
            AND transform(toString(severity), ['debug', 'info', 'warning', 'error', 'critical'], [5, 9, 13, 17, 21], 0)
                >= {least_severity:UInt8}
            AND (empty({words:Array(String)})
                OR hasAllTokens(if(type = 'log', lower(concat(name, ' ', title, ' ', details)), ''), {words:Array(String)}))
        ORDER BY timestamp, log_offset, log_id
        LIMIT {rows:UInt32}
    )
    ORDER BY time_ns, offset, log_id
    LIMIT {rows:UInt32}
);

-- name: page
-- The records from one place to another, both included.
SELECT *
FROM
(
    SELECT
        toUnixTimestamp64Nano(Timestamp) AS time_ns, log_offset AS offset, toUInt32(cityHash64(log)) AS log_id,
        cityHash64(TraceId, SpanId, SeverityNumber, SeverityText, ServiceName, Body, LogAttributes, ResourceAttributes, EventName)
            AS content,
        'otlp' AS source, SeverityNumber AS severity_number,
        substringUTF8(SeverityText, 1, {longest_name:UInt32}) AS severity,
        substringUTF8(ServiceName, 1, {longest_name:UInt32}) AS service,
        arrayFilter(
            (member, text) -> lengthUTF8(text) > {longest_name:UInt32}, ['severity', 'service'],
            [toString(SeverityText), toString(ServiceName)]
        ) AS long_names,
        substringUTF8(if(Body = '', EventName, Body), 1, {longest_text:UInt32}) AS text,
        lengthUTF8(Body) > {longest_text:UInt32} AS has_long_text,
        TraceId AS trace_id, SpanId AS span_id,
        arraySum(value -> length(value), mapValues(LogAttributes)) + arraySum(key -> length(key), mapKeys(LogAttributes))
            AS attribute_bytes,
        if(attribute_bytes <= {longest_json:UInt32}, LogAttributes, CAST(map(), 'Map(String, String)')) AS attributes,
        '' AS attributes_json,
        attribute_bytes > {longest_json:UInt32} AS has_long_attributes
    FROM pharos.otel_logs
    WHERE EnvironmentId = {environment:String}
        AND toDate(Timestamp) >= toDate(fromUnixTimestamp64Nano({last_ns:Int64}, 'UTC'))
        AND toDate(Timestamp) <= toDate(fromUnixTimestamp64Nano({after_ns:Int64}, 'UTC'))
        AND Timestamp >= fromUnixTimestamp64Nano({last_ns:Int64}, 'UTC')
        AND Timestamp <= fromUnixTimestamp64Nano({after_ns:Int64}, 'UTC')
        AND (time_ns, log_offset, log_id) >= ({last_ns:Int64}, {last_offset:UInt64}, {last_log:UInt32})
        AND (time_ns, log_offset, log_id) <= ({after_ns:Int64}, {after_offset:UInt64}, {after_log:UInt32})
        AND ({service:String} = '' OR ServiceName = {service:String})
        AND ({trace:String} = '' OR TraceId = {trace:String})
        AND SeverityNumber >= {least_severity:UInt8}
        AND (empty({words:Array(String)}) OR hasAllTokens(lower(Body), {words:Array(String)}))
    UNION ALL
    SELECT
        toUnixTimestamp64Micro(timestamp) * 1000 AS time_ns, log_offset AS offset, toUInt32(cityHash64(log)) AS log_id,
        toUInt64(position) AS content,
        'event' AS source,
        transform(toString(telemetry_events.severity), ['debug', 'info', 'warning', 'error', 'critical'], [5, 9, 13, 17, 21], 0) AS severity_number,
        toString(telemetry_events.severity) AS severity,
        substringUTF8(telemetry_events.service, 1, {longest_name:UInt32}) AS service,
        arrayFilter(
            (member, text) -> lengthUTF8(text) > {longest_name:UInt32}, ['service', 'trace_id', 'span_id'],
            [toString(telemetry_events.service), telemetry_events.trace_id, telemetry_events.span_id]
        ) AS long_names,
        substringUTF8(trimRight(multiIf(name != '', concat(name, ' ', title), title != '', title, details)), 1, {longest_text:UInt32}) AS text,
        lengthUTF8(trimRight(multiIf(name != '', concat(name, ' ', title), title != '', title, details))) > {longest_text:UInt32} AS has_long_text,
        substringUTF8(telemetry_events.trace_id, 1, {longest_name:UInt32}) AS trace_id,
        substringUTF8(telemetry_events.span_id, 1, {longest_name:UInt32}) AS span_id,
        0 AS attribute_bytes,
        CAST(map(), 'Map(String, String)') AS attributes,
        if(length(telemetry_events.attributes) <= {longest_json:UInt32}, telemetry_events.attributes, '') AS attributes_json,
        length(telemetry_events.attributes) > {longest_json:UInt32} AS has_long_attributes
    FROM pharos.telemetry_events
    WHERE environment_id = {environment:String} AND type = 'log'
        AND toDate(timestamp) >= toDate(fromUnixTimestamp64Nano({last_ns:Int64}, 'UTC'))
        AND toDate(timestamp) <= toDate(fromUnixTimestamp64Nano({after_ns:Int64}, 'UTC'))
        AND timestamp >= fromUnixTimestamp64Nano({last_ns:Int64}, 'UTC')
        AND timestamp <= fromUnixTimestamp64Nano({after_ns:Int64}, 'UTC')
        AND (time_ns, log_offset, log_id) >= ({last_ns:Int64}, {last_offset:UInt64}, {last_log:UInt32})
        AND (time_ns, log_offset, log_id) <= ({after_ns:Int64}, {after_offset:UInt64}, {after_log:UInt32})
        AND ({service:String} = '' OR telemetry_events.service = {service:String})
        AND ({trace:String} = '' OR telemetry_events.trace_id = {trace:String})
        AND severity_number >= {least_severity:UInt8}
        AND (empty({words:Array(String)})
            OR hasAllTokens(if(type = 'log', lower(concat(name, ' ', title, ' ', details)), ''), {words:Array(String)}))
)
ORDER BY time_ns DESC, offset DESC, log_id DESC, content DESC
LIMIT {rows:UInt32} OFFSET {shown:UInt64};

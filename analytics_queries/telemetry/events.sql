-- Which telemetry events does a window of time hold, the newest first, after this one? Texts are cut, and free-form
-- members that are longer than `longest_json` bytes are left out.
SELECT
    toUnixTimestamp64Micro(timestamp) * 1000 AS time_ns,
    log_offset,
    toUInt32(cityHash64(log)) AS log_id,
    position,
    id, type, received_at, severity, name, title, service, trace_id, span_id, parent_span_id, route, url, status_code,
    duration_ms, fingerprint, affected_users,
    substringUTF8(details, 1, {longest_text:UInt32}) AS shown_details,
    lengthUTF8(details) > {longest_text:UInt32} AS has_long_details,
    if(length(attributes) <= {longest_json:UInt32}, attributes, '') AS shown_attributes,
    length(attributes) > {longest_json:UInt32} AS has_long_attributes,
    if(length(payload) <= {longest_json:UInt32}, payload, '') AS shown_payload,
    length(payload) > {longest_json:UInt32} AS has_long_payload
FROM pharos.telemetry_events
WHERE environment_id = {environment:String}
    AND toDate(timestamp) >= toDate(fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC'))
    AND toDate(timestamp) <= toDate(fromUnixTimestamp64Micro({end_us:Int64}, 'UTC'))
    AND timestamp >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')
    AND timestamp < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
    AND ({type:String} = '' OR type = {type:String})
    AND ({service:String} = '' OR service = {service:String})
    AND ({severity:String} = '' OR severity = {severity:String})
    AND ({name:String} = '' OR name = {name:String})
    AND ({route:String} = '' OR route = {route:String})
    AND ({trace:String} = '' OR trace_id = {trace:String})
    AND (NOT {has_after:Bool} OR (time_ns, log_offset, log_id, position) < (
        {after_ns:Int64}, {after_offset:UInt64}, {after_log:UInt32}, {after_position:UInt32}
    ))
ORDER BY timestamp DESC, log_offset DESC, log_id DESC, position DESC
LIMIT {limit:UInt32}

-- Which telemetry events does a window of time hold, the newest first, after this one? Texts are cut, and free-form
-- members that are longer than `longest_json` bytes are left out.
SELECT
    toUnixTimestamp64Micro(timestamp) * 1000 AS time_ns,
    log_offset,
    toUInt32(cityHash64(log)) AS log_id,
    position,
    type, received_at, severity, status_code, duration_ms, affected_users,
    substringUTF8(id, 1, {longest_name:UInt32}) AS shown_id,
    substringUTF8(name, 1, {longest_name:UInt32}) AS shown_name,
    substringUTF8(service, 1, {longest_name:UInt32}) AS shown_service,
    substringUTF8(trace_id, 1, {longest_name:UInt32}) AS shown_trace_id,
    substringUTF8(span_id, 1, {longest_name:UInt32}) AS shown_span_id,
    substringUTF8(parent_span_id, 1, {longest_name:UInt32}) AS shown_parent_span_id,
    substringUTF8(route, 1, {longest_name:UInt32}) AS shown_route,
    substringUTF8(fingerprint, 1, {longest_name:UInt32}) AS shown_fingerprint,
    substringUTF8(title, 1, {longest_text:UInt32}) AS shown_title,
    substringUTF8(url, 1, {longest_text:UInt32}) AS shown_url,
    arrayConcat(
        arrayFilter(
            (member, text) -> lengthUTF8(text) > {longest_name:UInt32},
            ['id', 'name', 'service', 'trace_id', 'span_id', 'parent_span_id', 'route', 'fingerprint'],
            [id, name, toString(service), trace_id, span_id, parent_span_id, route, fingerprint]
        ),
        arrayFilter((member, text) -> lengthUTF8(text) > {longest_text:UInt32}, ['title', 'url'], [title, url])
    ) AS long_texts,
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

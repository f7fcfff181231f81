-- Which telemetry events were received last, of one environment or of all?
SELECT
    environment_id, received_at, timestamp, type, id, severity, name, title, service, route, url,
    status_code, duration_ms, receipt_id, position, log_offset
FROM pharos.telemetry_events
WHERE received_at >= fromUnixTimestamp64Milli({since_ms:Int64})
  AND (received_at, log_offset, position) > (fromUnixTimestamp64Milli({after_ms:Int64}), {after_offset:UInt64}, {after_position:UInt32})
  AND ({environment:String} = '' OR environment_id = {environment:String})
ORDER BY received_at DESC, log_offset DESC, position DESC
LIMIT {limit:UInt32}

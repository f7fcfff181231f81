-- How many exceptions of these groups are there in each step of a time range? Each exception counts once a step, as in
-- `exception_groups.sql`.
SELECT group_id, intDiv(toUnixTimestamp(toDateTime(timestamp)), {step_s:UInt32}) AS step,
    uniqExact(if(trace_id != '' AND source != 'event', sipHash64(trace_id, kind, message), identity)) AS count
FROM pharos.exceptions
WHERE environment_id = {environment:String} AND group_id IN {groups:Array(UInt64)}
    AND toDate(timestamp) >= toDate(fromUnixTimestamp64Nano({begin_ns:Int64}, 'UTC'))
    AND toDate(timestamp) <= toDate(fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC'))
    AND timestamp >= fromUnixTimestamp64Nano({begin_ns:Int64}, 'UTC')
    AND timestamp < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
GROUP BY group_id, step
ORDER BY group_id, step
LIMIT {limit:UInt32}

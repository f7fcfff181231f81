-- How many exceptions of these groups are there in each step of a time range? Each identity counts once a step.
SELECT group_id, intDiv(toUnixTimestamp(toDateTime(timestamp)), {step_s:UInt32}) AS step, uniqExact(identity) AS count
FROM pharos.exceptions
WHERE environment_id = {environment:String} AND group_id IN {groups:Array(UInt64)}
    AND toDate(timestamp) >= toDate(fromUnixTimestamp64Nano({begin_ns:Int64}, 'UTC'))
    AND toDate(timestamp) <= toDate(fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC'))
    AND timestamp >= fromUnixTimestamp64Nano({begin_ns:Int64}, 'UTC')
    AND timestamp < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
GROUP BY group_id, step
ORDER BY group_id, step
LIMIT {limit:UInt32}

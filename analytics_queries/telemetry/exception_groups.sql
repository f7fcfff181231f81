-- Statements of `exception_groups.py`. Several rows may report one exception: each span that it passes through records it,
-- and so does a log record. So one type and message counts once a trace. Other exceptions are counted by their identity.

-- name: page
-- Which groups of exceptions were seen in this time range, the last seen first, after this one? Only rows
-- that were stored by `snapshot_ms` count: new exceptions must not move groups while a client reads the pages of a
-- list.
SELECT
    group_id,
    toUnixTimestamp64Nano(max(timestamp)) AS last_seen_ns,
    uniqExact(if(trace_id != '' AND source != 'event', sipHash64(trace_id, kind, message), identity)) AS count,
    greatest(max(reported_users), uniqExactIf(user, user != '')) AS affected_users,
    arraySort(groupUniqArray(20)(substringUTF8(service, 1, {longest_name:UInt32}))) AS services
FROM pharos.exceptions
WHERE environment_id = {environment:String}
    AND toDate(timestamp) >= toDate(fromUnixTimestamp64Nano({begin_ns:Int64}, 'UTC'))
    AND toDate(timestamp) <= toDate(fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC'))
    AND timestamp >= fromUnixTimestamp64Nano({begin_ns:Int64}, 'UTC')
    AND timestamp < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    AND stored_at <= fromUnixTimestamp64Milli({snapshot_ms:Int64}, 'UTC')
    AND ({service:String} = '' OR service = {service:String})
    AND (empty({only:Array(UInt64)}) OR group_id IN {only:Array(UInt64)})
    AND (empty({except:Array(UInt64)}) OR group_id NOT IN {except:Array(UInt64)})
GROUP BY group_id
HAVING NOT {has_after:Bool} OR (last_seen_ns, group_id) < ({after_ns:Int64}, {after_group:UInt64})
ORDER BY last_seen_ns DESC, group_id DESC
LIMIT {limit:UInt32};

-- name: times
-- When were these groups seen first and last, as far back as exceptions are kept?
SELECT
    group_id,
    toUnixTimestamp64Nano(min(timestamp)) AS first_seen_ns,
    toUnixTimestamp64Nano(max(timestamp)) AS last_seen_ns
FROM pharos.exceptions
WHERE environment_id = {environment:String} AND group_id IN {groups:Array(UInt64)}
GROUP BY group_id;

-- name: samples
-- What was the last exception of each of these groups? `times_ns` are the times at which they were seen
-- last.
SELECT
    group_id, kind, message, substringUTF8(frame, 1, {longest_name:UInt32}) AS frame, stack,
    substringUTF8(version, 1, {longest_name:UInt32}) AS version,
    substringUTF8(trace_id, 1, {longest_name:UInt32}) AS trace_id
FROM pharos.exceptions
WHERE environment_id = {environment:String}
    AND (toDate(timestamp), group_id, timestamp) IN
    (
        SELECT toDate(time) AS day, seen.1, fromUnixTimestamp64Nano(seen.2, 'UTC') AS time
        FROM (SELECT arrayJoin(arrayZip({groups:Array(UInt64)}, {times_ns:Array(Int64)})) AS seen)
    )
ORDER BY group_id, identity
LIMIT 1 BY group_id;

-- name: releases
-- Of which versions and between which deployments were these groups seen after these times? `bounds_us` are the times of
-- deployments, ascending, after 0. An exception occurred when it was received, at the latest: a sender's clock may be ahead.
WITH least(toUnixTimestamp64Nano(timestamp), toUnixTimestamp64Milli(received_at) * 1000000) AS occurred_ns
SELECT
    group_id,
    substringUTF8(service, 1, {longest_name:UInt32}) AS service_name,
    substringUTF8(version, 1, {longest_name:UInt32}) AS version_name,
    roundDown(intDiv(occurred_ns, 1000), {bounds_us:Array(Int64)}) AS since_us,
    min(occurred_ns) AS first_ns
FROM pharos.exceptions
WHERE environment_id = {environment:String}
    AND toDate(timestamp) >= toDate(fromUnixTimestamp64Micro(arrayMin({after_us:Array(Int64)}), 'UTC'))
    AND group_id IN {groups:Array(UInt64)}
    AND intDiv(occurred_ns, 1000) > transform(group_id, {groups:Array(UInt64)}, {after_us:Array(Int64)}, 0)
GROUP BY group_id, service_name, version_name, since_us
ORDER BY first_ns
LIMIT {group_limit:UInt32} BY group_id
LIMIT {limit:UInt32};

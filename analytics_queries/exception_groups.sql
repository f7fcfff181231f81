-- Which exceptions were received, grouped into issues, of one environment or of all?
SELECT
    environment_id,
    lower(hex(group_id))                                                    AS id,
    uniqExact(identity)                                                     AS count,
    min(timestamp)                                                          AS first_seen,
    max(timestamp)                                                          AS last_seen,
    greatest(max(reported_users), uniqExactIf(user, user != ''))            AS affected_users,
    arraySort(groupUniqArray(5)(service))                                   AS services,
    any(kind)                                                               AS exception_type,
    argMax(message, timestamp)                                              AS newest_message,
    any(frame)                                                              AS top_frame,
    argMax(stack, timestamp)                                                AS newest_stack,
    argMax(trace_id, timestamp)                                             AS newest_trace_id
FROM pharos.exceptions
WHERE timestamp >= fromUnixTimestamp64Milli({since_ms:Int64})
  AND ({environment:String} = '' OR environment_id = {environment:String})
  AND ({id:String} = '' OR group_id = reinterpretAsUInt64(reverse(unhex({id:String}))))
GROUP BY environment_id, group_id
ORDER BY last_seen DESC, id
LIMIT {limit:UInt32}

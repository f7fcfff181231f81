-- Which groups of exceptions were seen at least `least` times in the last minutes before `end_us`, how often, how often in the
-- day before, and when first in that day? Groups that are named are counted however rare they are.
SELECT
    toString(environment_id) AS environment,
    group_id,
    uniqExactIf(identity, timestamp >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')) AS recent,
    uniqCombined64If(identity, timestamp < fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')) AS before,
    toUnixTimestamp64Micro(min(timestamp)) AS first_us,
    any(kind) AS sample_kind,
    substringUTF8(any(message), 1, 300) AS sample_message,
    any(service) AS sample_service
FROM pharos.exceptions
WHERE (environment_id, group_id) IN
    (
        SELECT environment_id, group_id
        FROM pharos.exceptions
        WHERE toDate(timestamp) >= toDate(fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC'))
            AND timestamp >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')
            AND timestamp < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
            AND received_at >= fromUnixTimestamp64Micro({received_us:Int64}, 'UTC')
        GROUP BY environment_id, group_id
        HAVING uniqExact(identity) >= {least:UInt32} OR has({named:Array(UInt64)}, group_id)
        ORDER BY count() DESC
        LIMIT {limit:UInt32}
    )
    AND toDate(timestamp) >= toDate(fromUnixTimestamp64Micro({day_us:Int64}, 'UTC'))
    AND timestamp >= fromUnixTimestamp64Micro({day_us:Int64}, 'UTC')
    AND timestamp < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
    AND received_at >= fromUnixTimestamp64Micro({day_us:Int64}, 'UTC')
GROUP BY environment_id, group_id

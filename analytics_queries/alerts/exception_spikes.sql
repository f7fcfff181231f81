-- Statements of `exception_spikes.py`.

-- name: busy
-- Which environments had at least `least` exceptions in the last minutes before `end_us`?
SELECT toString(environment_id) AS environment
FROM pharos.exceptions
WHERE toDate(timestamp) >= toDate(fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC'))
    AND timestamp >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')
    AND timestamp < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
    AND received_at >= fromUnixTimestamp64Micro({received_us:Int64}, 'UTC')
GROUP BY environment_id
HAVING count() >= {least:UInt32}
LIMIT {limit:UInt32};

-- name: frequent
-- Which groups of exceptions of these environments were seen at least `least` times in the last minutes
-- before `end_us`, how often, how often in the day before, and when first in that day? An account gets the most
-- frequent groups of each of its environments. Named groups are counted in addition, however rare they are. Exceptions are
-- counted as in `telemetry/exception_groups.sql`.
WITH if(trace_id != '' AND source != 'event', sipHash64(trace_id, kind, message), identity) AS exception
SELECT
    toString(environment_id) AS environment,
    group_id,
    uniqExactIf(exception, timestamp >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')) AS recent,
    uniqCombined64If(exception, timestamp < fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')) AS before,
    toUnixTimestamp64Micro(min(timestamp)) AS first_us,
    any(substringUTF8(kind, 1, 100)) AS sample_kind,
    any(substringUTF8(message, 1, 300)) AS sample_message,
    any(substringUTF8(service, 1, 100)) AS sample_service
FROM pharos.exceptions
WHERE (environment_id, group_id) IN
    (
        SELECT environment_id, group_id
        FROM
        (
            SELECT *, row_number() OVER (PARTITION BY environment_id, is_named ORDER BY exceptions DESC, group_id) AS place
            FROM
            (
                SELECT
                    environment_id, group_id,
                    uniqExact(if(trace_id != '' AND source != 'event', sipHash64(trace_id, kind, message), identity))
                        AS exceptions,
                    group_id IN {named:Array(UInt64)} AS is_named
                FROM pharos.exceptions
                WHERE environment_id IN {environments:Array(String)}
                    AND toDate(timestamp) >= toDate(fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC'))
                    AND timestamp >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')
                    AND timestamp < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
                    AND received_at >= fromUnixTimestamp64Micro({received_us:Int64}, 'UTC')
                GROUP BY environment_id, group_id
                HAVING exceptions >= {least:UInt32} OR is_named
            )
        )
        ORDER BY place
        LIMIT {limit:UInt32} BY
            is_named, transform(toString(environment_id), {environments:Array(String)}, {accounts:Array(UInt64)}, toUInt64(0))
    )
    AND environment_id IN {environments:Array(String)}
    AND toDate(timestamp) >= toDate(fromUnixTimestamp64Micro({day_us:Int64}, 'UTC'))
    AND timestamp >= fromUnixTimestamp64Micro({day_us:Int64}, 'UTC')
    AND timestamp < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
    AND received_at >= fromUnixTimestamp64Micro({day_us:Int64}, 'UTC')
GROUP BY environment_id, group_id;

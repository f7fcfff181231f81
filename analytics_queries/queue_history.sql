-- name: snapshots
-- What did queues report in each step of a time range? A snapshot that was sent again counts once. Steps are counted from 1970.
SELECT queue_id, step, avg(pending), max(pending), avg(delayed), avg(reserved), argMax(failed, observed_at), max(oldest_wait_seconds)
FROM
(
    SELECT
        queue_id, observed_at, pending, delayed, reserved, failed, oldest_wait_seconds,
        intDiv(toUnixTimestamp64Milli(observed_at), {step_ms:Int64}) AS step
    FROM pharos.queue_snapshots
    WHERE environment_id IN {environments:Array(String)} AND queue_id IN {queues:Array(UInt64)}
        AND observed_at >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')
        AND observed_at < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
    LIMIT 1 BY queue_id, snapshot_id
)
GROUP BY queue_id, step
ORDER BY queue_id, step;

-- name: workers
-- How many jobs did workers of queues begin in each step, and how many workers reported? A job begins with the first update
-- that names it: updates of the hour before the range show which jobs had begun earlier.
SELECT queue_id, step, countIf(is_job) AS jobs, countIf(NOT is_job) AS workers
FROM
(
    SELECT queue_id, true AS is_job, intDiv(toUnixTimestamp64Milli(min(received_at)), {step_ms:Int64}) AS step
    FROM pharos.queue_worker_updates
    WHERE environment_id IN {environments:Array(String)} AND queue_id IN {queues:Array(UInt64)}
        AND received_at >= fromUnixTimestamp64Micro({begin_us:Int64} - 3600000000, 'UTC')
        AND received_at < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
        AND status = 'busy' AND isNotNull(job_id)
    GROUP BY queue_id, job_id
    HAVING min(received_at) >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')
    UNION ALL
    SELECT queue_id, false AS is_job, intDiv(toUnixTimestamp64Milli(received_at), {step_ms:Int64}) AS step
    FROM pharos.queue_worker_updates
    WHERE environment_id IN {environments:Array(String)} AND queue_id IN {queues:Array(UInt64)}
        AND received_at >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')
        AND received_at < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
        AND status != 'stopped'
    GROUP BY queue_id, worker_id, step
)
GROUP BY queue_id, step
ORDER BY queue_id, step;

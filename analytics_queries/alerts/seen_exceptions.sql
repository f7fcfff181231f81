-- Statements of `seen_exceptions.py`.

-- name: seen
-- Which groups of exceptions were stored in this interval of the store's clock, and what is one of each? Exceptions that were
-- received long before are left out: the time of receipt excludes parts without reading them.
SELECT
    toString(environment_id) AS environment,
    group_id,
    toUnixTimestamp64Nano(min(timestamp)) AS first_ns,
    count() AS exceptions,
    any(kind) AS sample_kind,
    substringUTF8(any(message), 1, 300) AS sample_message,
    substringUTF8(any(frame), 1, 200) AS sample_frame,
    any(service) AS sample_service
FROM pharos.exceptions
WHERE received_at >= fromUnixTimestamp64Milli({received_ms:Int64}, 'UTC')
    AND stored_at > fromUnixTimestamp64Milli({after_ms:Int64}, 'UTC')
    AND stored_at <= fromUnixTimestamp64Milli({through_ms:Int64}, 'UTC')
GROUP BY environment_id, group_id
ORDER BY environment, first_ns, group_id
LIMIT {limit_by:UInt32} BY environment
LIMIT {limit:UInt32};

-- name: first
-- When was each of these groups seen first, by its sender's clock? From the projection `group_times`.
SELECT toString(environment_id) AS environment, group_id, toUnixTimestamp64Nano(min(timestamp)) AS first_ns
FROM pharos.exceptions
WHERE environment_id IN {environments:Array(String)} AND group_id IN {groups:Array(UInt64)}
GROUP BY environment_id, group_id;

-- name: earlier
-- Which of these groups have an exception that was stored up to this time?
SELECT toString(environment_id) AS environment, group_id
FROM pharos.exceptions
WHERE environment_id IN {environments:Array(String)} AND group_id IN {groups:Array(UInt64)}
    AND toDate(timestamp) >= toDate(fromUnixTimestamp64Nano({first_ns:Int64}, 'UTC'))
    AND stored_at <= fromUnixTimestamp64Milli({after_ms:Int64}, 'UTC')
GROUP BY environment_id, group_id;

-- Statements of `seen_exceptions.py`. Texts are cut before they are aggregated: one exception may have a quarter of a megabyte.

-- name: busy
-- In which environments were exceptions stored in this interval of the store's clock, and of about how many groups? Exceptions
-- that were received long before are left out: the time of receipt excludes parts without reading them.
SELECT toString(environment_id) AS environment, uniqCombined64(group_id) AS groups
FROM pharos.exceptions
WHERE received_at >= fromUnixTimestamp64Milli({received_ms:Int64}, 'UTC')
    AND stored_at > fromUnixTimestamp64Milli({after_ms:Int64}, 'UTC')
    AND stored_at <= fromUnixTimestamp64Milli({through_ms:Int64}, 'UTC')
GROUP BY environment_id
LIMIT {limit:UInt32};

-- name: seen
-- Which groups of exceptions of these environments were stored in the interval, and what is an example of
-- each? An account gets the first groups of each environment, so that no environment hides those of another. `groups`
-- is the number of groups of the environment.
SELECT environment, group_id, first_ns, exceptions, sample_kind, sample_message, sample_frame, sample_service, groups
FROM
(
    SELECT
        *,
        count() OVER (PARTITION BY environment) AS groups,
        row_number() OVER (PARTITION BY environment ORDER BY first_ns, group_id) AS place
    FROM
    (
        SELECT
            toString(environment_id) AS environment,
            group_id,
            toUnixTimestamp64Nano(min(timestamp)) AS first_ns,
            count() AS exceptions,
            any(substringUTF8(kind, 1, 100)) AS sample_kind,
            any(substringUTF8(message, 1, 300)) AS sample_message,
            any(substringUTF8(frame, 1, 200)) AS sample_frame,
            any(substringUTF8(service, 1, 100)) AS sample_service
        FROM pharos.exceptions
        WHERE received_at >= fromUnixTimestamp64Milli({received_ms:Int64}, 'UTC')
            AND stored_at > fromUnixTimestamp64Milli({after_ms:Int64}, 'UTC')
            AND stored_at <= fromUnixTimestamp64Milli({through_ms:Int64}, 'UTC')
            AND environment_id IN {environments:Array(String)}
        GROUP BY environment_id, group_id
    )
)
ORDER BY place, environment
LIMIT {limit_by:UInt32} BY transform(environment, {environments:Array(String)}, {accounts:Array(UInt64)}, toUInt64(0));

-- name: first
-- When was each of these groups seen first, by its sender's clock? From the projection `group_times`.
SELECT toString(environment_id) AS environment, group_id, toUnixTimestamp64Nano(min(timestamp)) AS first_ns
FROM pharos.exceptions
WHERE environment_id IN {environments:Array(String)} AND group_id IN {groups:Array(UInt64)}
    AND (environment_id, group_id) IN (SELECT arrayJoin(arrayZip({environments:Array(String)}, {groups:Array(UInt64)})))
GROUP BY environment_id, group_id;

-- name: earlier
-- Which of these groups have an exception that was stored up to this time?
SELECT toString(environment_id) AS environment, group_id
FROM pharos.exceptions
WHERE environment_id IN {environments:Array(String)} AND group_id IN {groups:Array(UInt64)}
    AND (environment_id, group_id) IN (SELECT arrayJoin(arrayZip({environments:Array(String)}, {groups:Array(UInt64)})))
    AND toDate(timestamp) >= toDate(fromUnixTimestamp64Nano({first_ns:Int64}, 'UTC'))
    AND stored_at <= fromUnixTimestamp64Milli({after_ms:Int64}, 'UTC')
GROUP BY environment_id, group_id;

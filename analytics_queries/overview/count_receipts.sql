-- Statements of `count_receipts.py`. Parts whose newest row is older than `from_ms` are not read: tables are partitioned by
-- the time of receipt.

-- name: exceptions
-- How many exceptions of these environments were received since two times?
SELECT
    countIf(received_at >= fromUnixTimestamp64Milli({former_ms:Int64}, 'UTC')) AS since_former,
    countIf(received_at >= fromUnixTimestamp64Milli({later_ms:Int64}, 'UTC')) AS since_later
FROM pharos.exceptions
WHERE environment_id IN {environments:Array(String)} AND received_at >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC');

-- name: events
-- How much telemetry of these environments was received since two times?
SELECT sum(since_former) AS since_former, sum(since_later) AS since_later
FROM
(
    SELECT
        countIf(received_at >= fromUnixTimestamp64Milli({former_ms:Int64}, 'UTC')) AS since_former,
        countIf(received_at >= fromUnixTimestamp64Milli({later_ms:Int64}, 'UTC')) AS since_later
    FROM pharos.telemetry_events
    WHERE environment_id IN {environments:Array(String)} AND received_at >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC')
    UNION ALL
    SELECT
        countIf(ReceivedAt >= fromUnixTimestamp64Milli({former_ms:Int64}, 'UTC')) AS since_former,
        countIf(ReceivedAt >= fromUnixTimestamp64Milli({later_ms:Int64}, 'UTC')) AS since_later
    FROM pharos.otel_traces
    WHERE EnvironmentId IN {environments:Array(String)} AND ReceivedAt >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC')
    UNION ALL
    SELECT
        countIf(ReceivedAt >= fromUnixTimestamp64Milli({former_ms:Int64}, 'UTC')) AS since_former,
        countIf(ReceivedAt >= fromUnixTimestamp64Milli({later_ms:Int64}, 'UTC')) AS since_later
    FROM pharos.otel_logs
    WHERE EnvironmentId IN {environments:Array(String)} AND ReceivedAt >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC')
    UNION ALL
    SELECT
        countIf(ReceivedAt >= fromUnixTimestamp64Milli({former_ms:Int64}, 'UTC')) AS since_former,
        countIf(ReceivedAt >= fromUnixTimestamp64Milli({later_ms:Int64}, 'UTC')) AS since_later
    FROM pharos.otel_metrics_gauge
    WHERE EnvironmentId IN {environments:Array(String)} AND ReceivedAt >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC')
    UNION ALL
    SELECT
        countIf(ReceivedAt >= fromUnixTimestamp64Milli({former_ms:Int64}, 'UTC')) AS since_former,
        countIf(ReceivedAt >= fromUnixTimestamp64Milli({later_ms:Int64}, 'UTC')) AS since_later
    FROM pharos.otel_metrics_sum
    WHERE EnvironmentId IN {environments:Array(String)} AND ReceivedAt >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC')
    UNION ALL
    SELECT
        countIf(ReceivedAt >= fromUnixTimestamp64Milli({former_ms:Int64}, 'UTC')) AS since_former,
        countIf(ReceivedAt >= fromUnixTimestamp64Milli({later_ms:Int64}, 'UTC')) AS since_later
    FROM pharos.otel_metrics_histogram
    WHERE EnvironmentId IN {environments:Array(String)} AND ReceivedAt >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC')
);

-- name: pageviews
-- How many page views of these sites were received since two times?
SELECT
    countIf(received_at >= fromUnixTimestamp64Milli({former_ms:Int64}, 'UTC')) AS since_former,
    countIf(received_at >= fromUnixTimestamp64Milli({later_ms:Int64}, 'UTC')) AS since_later
FROM pharos.pageviews
WHERE site_id IN {sites:Array(UInt64)} AND received_at >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC');

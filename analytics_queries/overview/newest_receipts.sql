-- Statements of `newest_receipts.py`. Parts whose newest row is older than `since_ms` are not read: tables are partitioned by
-- the time of receipt.

-- name: exceptions
-- When did these environments last send exceptions, if they did since `since_ms`?
SELECT toUnixTimestamp64Milli(max(received_at)) AS newest_ms
FROM pharos.exceptions
WHERE environment_id IN {environments:Array(String)} AND received_at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC');

-- name: events
-- When did these environments last send telemetry, if they did since `since_ms`?
SELECT max(newest_ms) AS newest_ms
FROM
(
    SELECT toUnixTimestamp64Milli(max(received_at)) AS newest_ms
    FROM pharos.telemetry_events
    WHERE environment_id IN {environments:Array(String)} AND received_at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
    UNION ALL
    SELECT toUnixTimestamp64Milli(max(ReceivedAt)) AS newest_ms
    FROM pharos.otel_traces
    WHERE EnvironmentId IN {environments:Array(String)} AND ReceivedAt >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
    UNION ALL
    SELECT toUnixTimestamp64Milli(max(ReceivedAt)) AS newest_ms
    FROM pharos.otel_logs
    WHERE EnvironmentId IN {environments:Array(String)} AND ReceivedAt >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
    UNION ALL
    SELECT toUnixTimestamp64Milli(max(ReceivedAt)) AS newest_ms
    FROM pharos.otel_metrics_gauge
    WHERE EnvironmentId IN {environments:Array(String)} AND ReceivedAt >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
    UNION ALL
    SELECT toUnixTimestamp64Milli(max(ReceivedAt)) AS newest_ms
    FROM pharos.otel_metrics_sum
    WHERE EnvironmentId IN {environments:Array(String)} AND ReceivedAt >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
    UNION ALL
    SELECT toUnixTimestamp64Milli(max(ReceivedAt)) AS newest_ms
    FROM pharos.otel_metrics_histogram
    WHERE EnvironmentId IN {environments:Array(String)} AND ReceivedAt >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
);

-- name: pageviews
-- When did these sites last send page views, if they did since `since_ms`?
SELECT toUnixTimestamp64Milli(max(received_at)) AS newest_ms
FROM pharos.pageviews
WHERE site_id IN {sites:Array(UInt64)} AND received_at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC');

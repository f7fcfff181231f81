-- Statements of `first_rows.py`: has any row of these environments or sites arrived, and when was it received? The first row
-- that is found proves it, so that hardly anything is read.

-- name: events
SELECT toUnixTimestamp64Milli(received_at) AS received_ms
FROM pharos.telemetry_events
WHERE environment_id IN {environments:Array(String)}
LIMIT 1;

-- name: spans
SELECT toUnixTimestamp64Milli(ReceivedAt) AS received_ms
FROM pharos.otel_traces
WHERE EnvironmentId IN {environments:Array(String)}
LIMIT 1;

-- name: log_records
SELECT toUnixTimestamp64Milli(ReceivedAt) AS received_ms
FROM pharos.otel_logs
WHERE EnvironmentId IN {environments:Array(String)}
LIMIT 1;

-- name: sums
SELECT toUnixTimestamp64Milli(ReceivedAt) AS received_ms
FROM pharos.otel_metrics_sum
WHERE EnvironmentId IN {environments:Array(String)}
LIMIT 1;

-- name: gauges
SELECT toUnixTimestamp64Milli(ReceivedAt) AS received_ms
FROM pharos.otel_metrics_gauge
WHERE EnvironmentId IN {environments:Array(String)}
LIMIT 1;

-- name: histograms
SELECT toUnixTimestamp64Milli(ReceivedAt) AS received_ms
FROM pharos.otel_metrics_histogram
WHERE EnvironmentId IN {environments:Array(String)}
LIMIT 1;

-- name: pageviews
SELECT toUnixTimestamp64Milli(received_at) AS received_ms
FROM pharos.pageviews
WHERE site_id IN {sites:Array(UInt64)}
LIMIT 1;

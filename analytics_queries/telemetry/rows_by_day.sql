-- How many rows of telemetry do these environments have of each day of receipt (UTC) since `since`, by kind?
-- The time of receipt chooses the partitions, and the environment leads the sort key: only their rows are counted.
SELECT environment, day, kind, sum(stored) AS stored
FROM
(
    SELECT toString(environment_id) AS environment, toDate(received_at) AS day, 'events' AS kind, count() AS stored
    FROM pharos.telemetry_events
    WHERE environment_id IN {environments:Array(String)} AND received_at >= toDateTime64({since:Date}, 3, 'UTC')
    GROUP BY environment, day
    UNION ALL
    SELECT toString(EnvironmentId) AS environment, toDate(ReceivedAt) AS day, 'spans' AS kind, count() AS stored
    FROM pharos.otel_traces
    WHERE EnvironmentId IN {environments:Array(String)} AND ReceivedAt >= toDateTime64({since:Date}, 3, 'UTC')
    GROUP BY environment, day
    UNION ALL
    SELECT toString(EnvironmentId) AS environment, toDate(ReceivedAt) AS day, 'log_records' AS kind, count() AS stored
    FROM pharos.otel_logs
    WHERE EnvironmentId IN {environments:Array(String)} AND ReceivedAt >= toDateTime64({since:Date}, 3, 'UTC')
    GROUP BY environment, day
    UNION ALL
    SELECT toString(EnvironmentId) AS environment, toDate(ReceivedAt) AS day, 'metric_points' AS kind, count() AS stored
    FROM pharos.otel_metrics_gauge
    WHERE EnvironmentId IN {environments:Array(String)} AND ReceivedAt >= toDateTime64({since:Date}, 3, 'UTC')
    GROUP BY environment, day
    UNION ALL
    SELECT toString(EnvironmentId) AS environment, toDate(ReceivedAt) AS day, 'metric_points' AS kind, count() AS stored
    FROM pharos.otel_metrics_sum
    WHERE EnvironmentId IN {environments:Array(String)} AND ReceivedAt >= toDateTime64({since:Date}, 3, 'UTC')
    GROUP BY environment, day
    UNION ALL
    SELECT toString(EnvironmentId) AS environment, toDate(ReceivedAt) AS day, 'metric_points' AS kind, count() AS stored
    FROM pharos.otel_metrics_histogram
    WHERE EnvironmentId IN {environments:Array(String)} AND ReceivedAt >= toDateTime64({since:Date}, 3, 'UTC')
    GROUP BY environment, day
    UNION ALL
    SELECT toString(EnvironmentId) AS environment, toDate(ReceivedAt) AS day, 'metric_points' AS kind, count() AS stored
    FROM pharos.otel_metrics_exponential_histogram
    WHERE EnvironmentId IN {environments:Array(String)} AND ReceivedAt >= toDateTime64({since:Date}, 3, 'UTC')
    GROUP BY environment, day
    UNION ALL
    SELECT toString(EnvironmentId) AS environment, toDate(ReceivedAt) AS day, 'metric_points' AS kind, count() AS stored
    FROM pharos.otel_metrics_summary
    WHERE EnvironmentId IN {environments:Array(String)} AND ReceivedAt >= toDateTime64({since:Date}, 3, 'UTC')
    GROUP BY environment, day
)
GROUP BY environment, day, kind

-- How many rows of telemetry do these environments have of each day of receipt (UTC) since `since`, by kind?
-- They are read from the projections `rows_by_receipt`, whose expressions must stay the same as here.
SELECT environment, day, kind, sum(stored) AS stored
FROM
(
    SELECT toString(environment_id) AS environment, toDate(received_at) AS day, 'events' AS kind, count() AS stored
    FROM pharos.telemetry_events
    WHERE environment_id IN {environments:Array(String)} AND toDate(received_at) >= {since:Date}
    GROUP BY environment, day
    UNION ALL
    SELECT toString(EnvironmentId) AS environment, toDate(ReceivedAt) AS day, 'spans' AS kind, count() AS stored
    FROM pharos.otel_traces
    WHERE EnvironmentId IN {environments:Array(String)} AND toDate(ReceivedAt) >= {since:Date}
    GROUP BY environment, day
    UNION ALL
    SELECT toString(EnvironmentId) AS environment, toDate(ReceivedAt) AS day, 'log_records' AS kind, count() AS stored
    FROM pharos.otel_logs
    WHERE EnvironmentId IN {environments:Array(String)} AND toDate(ReceivedAt) >= {since:Date}
    GROUP BY environment, day
    UNION ALL
    SELECT toString(EnvironmentId) AS environment, toDate(ReceivedAt) AS day, 'metric_points' AS kind, count() AS stored
    FROM pharos.otel_metrics_gauge
    WHERE EnvironmentId IN {environments:Array(String)} AND toDate(ReceivedAt) >= {since:Date}
    GROUP BY environment, day
    UNION ALL
    SELECT toString(EnvironmentId) AS environment, toDate(ReceivedAt) AS day, 'metric_points' AS kind, count() AS stored
    FROM pharos.otel_metrics_sum
    WHERE EnvironmentId IN {environments:Array(String)} AND toDate(ReceivedAt) >= {since:Date}
    GROUP BY environment, day
    UNION ALL
    SELECT toString(EnvironmentId) AS environment, toDate(ReceivedAt) AS day, 'metric_points' AS kind, count() AS stored
    FROM pharos.otel_metrics_histogram
    WHERE EnvironmentId IN {environments:Array(String)} AND toDate(ReceivedAt) >= {since:Date}
    GROUP BY environment, day
    UNION ALL
    SELECT toString(EnvironmentId) AS environment, toDate(ReceivedAt) AS day, 'metric_points' AS kind, count() AS stored
    FROM pharos.otel_metrics_exponential_histogram
    WHERE EnvironmentId IN {environments:Array(String)} AND toDate(ReceivedAt) >= {since:Date}
    GROUP BY environment, day
    UNION ALL
    SELECT toString(EnvironmentId) AS environment, toDate(ReceivedAt) AS day, 'metric_points' AS kind, count() AS stored
    FROM pharos.otel_metrics_summary
    WHERE EnvironmentId IN {environments:Array(String)} AND toDate(ReceivedAt) >= {since:Date}
    GROUP BY environment, day
)
GROUP BY environment, day, kind

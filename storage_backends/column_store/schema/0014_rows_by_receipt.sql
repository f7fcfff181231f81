-- Stored rows of each environment by day of receipt, for usage (decision 53). Projections as in 0012_request_rollups: built in the
-- background, and rows are counted until then. Queries must have the same expressions.
ALTER TABLE pharos.telemetry_events ADD PROJECTION IF NOT EXISTS rows_by_receipt
(
    SELECT environment_id, toDate(received_at), count() GROUP BY environment_id, toDate(received_at)
);
ALTER TABLE pharos.otel_traces ADD PROJECTION IF NOT EXISTS rows_by_receipt
(
    SELECT EnvironmentId, toDate(ReceivedAt), count() GROUP BY EnvironmentId, toDate(ReceivedAt)
);
ALTER TABLE pharos.otel_logs ADD PROJECTION IF NOT EXISTS rows_by_receipt
(
    SELECT EnvironmentId, toDate(ReceivedAt), count() GROUP BY EnvironmentId, toDate(ReceivedAt)
);
ALTER TABLE pharos.otel_metrics_gauge ADD PROJECTION IF NOT EXISTS rows_by_receipt
(
    SELECT EnvironmentId, toDate(ReceivedAt), count() GROUP BY EnvironmentId, toDate(ReceivedAt)
);
ALTER TABLE pharos.otel_metrics_sum ADD PROJECTION IF NOT EXISTS rows_by_receipt
(
    SELECT EnvironmentId, toDate(ReceivedAt), count() GROUP BY EnvironmentId, toDate(ReceivedAt)
);
ALTER TABLE pharos.otel_metrics_histogram ADD PROJECTION IF NOT EXISTS rows_by_receipt
(
    SELECT EnvironmentId, toDate(ReceivedAt), count() GROUP BY EnvironmentId, toDate(ReceivedAt)
);
ALTER TABLE pharos.otel_metrics_exponential_histogram ADD PROJECTION IF NOT EXISTS rows_by_receipt
(
    SELECT EnvironmentId, toDate(ReceivedAt), count() GROUP BY EnvironmentId, toDate(ReceivedAt)
);
ALTER TABLE pharos.otel_metrics_summary ADD PROJECTION IF NOT EXISTS rows_by_receipt
(
    SELECT EnvironmentId, toDate(ReceivedAt), count() GROUP BY EnvironmentId, toDate(ReceivedAt)
);

ALTER TABLE pharos.telemetry_events MATERIALIZE PROJECTION rows_by_receipt SETTINGS mutations_sync = 0;
ALTER TABLE pharos.otel_traces MATERIALIZE PROJECTION rows_by_receipt SETTINGS mutations_sync = 0;
ALTER TABLE pharos.otel_logs MATERIALIZE PROJECTION rows_by_receipt SETTINGS mutations_sync = 0;
ALTER TABLE pharos.otel_metrics_gauge MATERIALIZE PROJECTION rows_by_receipt SETTINGS mutations_sync = 0;
ALTER TABLE pharos.otel_metrics_sum MATERIALIZE PROJECTION rows_by_receipt SETTINGS mutations_sync = 0;
ALTER TABLE pharos.otel_metrics_histogram MATERIALIZE PROJECTION rows_by_receipt SETTINGS mutations_sync = 0;
ALTER TABLE pharos.otel_metrics_exponential_histogram MATERIALIZE PROJECTION rows_by_receipt SETTINGS mutations_sync = 0;
ALTER TABLE pharos.otel_metrics_summary MATERIALIZE PROJECTION rows_by_receipt SETTINGS mutations_sync = 0;

-- Refuse inserts that come too late. A consumer's insert says until when it counts in its setting `log_comment`:
-- 'insert before ' and seconds since 1970. Inserts that say nothing of that kind have no deadline. `nowInBlock()` is the time
-- at which the rows are there; `now()` would be the time at which the statement began, and rows may come long after it.
-- The window holds the tokens of more inserts than a table takes within a deadline.
ALTER TABLE pharos.telemetry_events ADD CONSTRAINT IF NOT EXISTS inserted_in_time CHECK
    NOT startsWith(getSetting('log_comment'), 'insert before ')
    OR toUInt32(nowInBlock()) < toUInt32OrZero(substring(getSetting('log_comment'), 15));
ALTER TABLE pharos.telemetry_events MODIFY SETTING non_replicated_deduplication_window = 10000;
ALTER TABLE pharos.ingest_receipts ADD CONSTRAINT IF NOT EXISTS inserted_in_time CHECK
    NOT startsWith(getSetting('log_comment'), 'insert before ')
    OR toUInt32(nowInBlock()) < toUInt32OrZero(substring(getSetting('log_comment'), 15));
ALTER TABLE pharos.ingest_receipts MODIFY SETTING non_replicated_deduplication_window = 10000;
ALTER TABLE pharos.otel_traces ADD CONSTRAINT IF NOT EXISTS inserted_in_time CHECK
    NOT startsWith(getSetting('log_comment'), 'insert before ')
    OR toUInt32(nowInBlock()) < toUInt32OrZero(substring(getSetting('log_comment'), 15));
ALTER TABLE pharos.otel_traces MODIFY SETTING non_replicated_deduplication_window = 10000;
ALTER TABLE pharos.otel_logs ADD CONSTRAINT IF NOT EXISTS inserted_in_time CHECK
    NOT startsWith(getSetting('log_comment'), 'insert before ')
    OR toUInt32(nowInBlock()) < toUInt32OrZero(substring(getSetting('log_comment'), 15));
ALTER TABLE pharos.otel_logs MODIFY SETTING non_replicated_deduplication_window = 10000;
ALTER TABLE pharos.otel_metrics_gauge ADD CONSTRAINT IF NOT EXISTS inserted_in_time CHECK
    NOT startsWith(getSetting('log_comment'), 'insert before ')
    OR toUInt32(nowInBlock()) < toUInt32OrZero(substring(getSetting('log_comment'), 15));
ALTER TABLE pharos.otel_metrics_gauge MODIFY SETTING non_replicated_deduplication_window = 10000;
ALTER TABLE pharos.otel_metrics_sum ADD CONSTRAINT IF NOT EXISTS inserted_in_time CHECK
    NOT startsWith(getSetting('log_comment'), 'insert before ')
    OR toUInt32(nowInBlock()) < toUInt32OrZero(substring(getSetting('log_comment'), 15));
ALTER TABLE pharos.otel_metrics_sum MODIFY SETTING non_replicated_deduplication_window = 10000;
ALTER TABLE pharos.otel_metrics_histogram ADD CONSTRAINT IF NOT EXISTS inserted_in_time CHECK
    NOT startsWith(getSetting('log_comment'), 'insert before ')
    OR toUInt32(nowInBlock()) < toUInt32OrZero(substring(getSetting('log_comment'), 15));
ALTER TABLE pharos.otel_metrics_histogram MODIFY SETTING non_replicated_deduplication_window = 10000;
ALTER TABLE pharos.otel_metrics_exponential_histogram ADD CONSTRAINT IF NOT EXISTS inserted_in_time CHECK
    NOT startsWith(getSetting('log_comment'), 'insert before ')
    OR toUInt32(nowInBlock()) < toUInt32OrZero(substring(getSetting('log_comment'), 15));
ALTER TABLE pharos.otel_metrics_exponential_histogram MODIFY SETTING non_replicated_deduplication_window = 10000;
ALTER TABLE pharos.otel_metrics_summary ADD CONSTRAINT IF NOT EXISTS inserted_in_time CHECK
    NOT startsWith(getSetting('log_comment'), 'insert before ')
    OR toUInt32(nowInBlock()) < toUInt32OrZero(substring(getSetting('log_comment'), 15));
ALTER TABLE pharos.otel_metrics_summary MODIFY SETTING non_replicated_deduplication_window = 10000;
ALTER TABLE pharos.queue_snapshots ADD CONSTRAINT IF NOT EXISTS inserted_in_time CHECK
    NOT startsWith(getSetting('log_comment'), 'insert before ')
    OR toUInt32(nowInBlock()) < toUInt32OrZero(substring(getSetting('log_comment'), 15));
ALTER TABLE pharos.queue_snapshots MODIFY SETTING non_replicated_deduplication_window = 10000;
ALTER TABLE pharos.queue_worker_updates ADD CONSTRAINT IF NOT EXISTS inserted_in_time CHECK
    NOT startsWith(getSetting('log_comment'), 'insert before ')
    OR toUInt32(nowInBlock()) < toUInt32OrZero(substring(getSetting('log_comment'), 15));
ALTER TABLE pharos.queue_worker_updates MODIFY SETTING non_replicated_deduplication_window = 10000;
ALTER TABLE pharos.pageviews ADD CONSTRAINT IF NOT EXISTS inserted_in_time CHECK
    NOT startsWith(getSetting('log_comment'), 'insert before ')
    OR toUInt32(nowInBlock()) < toUInt32OrZero(substring(getSetting('log_comment'), 15));
ALTER TABLE pharos.pageviews MODIFY SETTING non_replicated_deduplication_window = 10000;
ALTER TABLE pharos.dropped_pageviews ADD CONSTRAINT IF NOT EXISTS inserted_in_time CHECK
    NOT startsWith(getSetting('log_comment'), 'insert before ')
    OR toUInt32(nowInBlock()) < toUInt32OrZero(substring(getSetting('log_comment'), 15));
ALTER TABLE pharos.dropped_pageviews MODIFY SETTING non_replicated_deduplication_window = 10000;
ALTER TABLE pharos.pageview_ids ADD CONSTRAINT IF NOT EXISTS inserted_in_time CHECK
    NOT startsWith(getSetting('log_comment'), 'insert before ')
    OR toUInt32(nowInBlock()) < toUInt32OrZero(substring(getSetting('log_comment'), 15));
ALTER TABLE pharos.pageview_ids MODIFY SETTING non_replicated_deduplication_window = 10000;

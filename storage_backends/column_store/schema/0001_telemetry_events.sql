-- One row per telemetry event of POST /v1/ingest.
-- Partitions follow the time of receipt, never the client's clock. `log` and `log_offset` name the record that
-- the row came from: after a crash they tell whether a chunk is stored. Free-form members are JSON text:
-- JSONExtractString(attributes, 'user.plan'). Columns that a batch has one value of are plain strings: a dictionary
-- costs more CPU a row than it saves. Parts are merged eight at once: fewer rewrites of the same row.
CREATE TABLE IF NOT EXISTS pharos.telemetry_events
(
    account_id      String CODEC(ZSTD(1)),
    project_id      String CODEC(ZSTD(1)),
    environment_id  LowCardinality(String),
    receipt_id      String CODEC(ZSTD(1)),
    batch_id        String CODEC(ZSTD(1)),
    position        UInt32 CODEC(Delta, ZSTD(1)),
    received_at     DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    stored_at       DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta, ZSTD(1)),
    timestamp       DateTime64(6, 'UTC') CODEC(Delta, ZSTD(1)),
    type            LowCardinality(String),
    id              String CODEC(ZSTD(1)),
    severity        LowCardinality(String),
    name            String CODEC(ZSTD(1)),
    title           String CODEC(ZSTD(1)),
    trace_id        String CODEC(ZSTD(1)),
    span_id         String CODEC(ZSTD(1)),
    parent_span_id  String CODEC(ZSTD(1)),
    route           String CODEC(ZSTD(1)),
    url             String CODEC(ZSTD(1)),
    service         LowCardinality(String),
    status_code     Nullable(Int64) CODEC(T64, ZSTD(1)),
    duration_ms     Nullable(Float64) CODEC(ZSTD(1)),
    fingerprint     String CODEC(ZSTD(1)),
    affected_users  Nullable(Int64) CODEC(T64, ZSTD(1)),
    details         String CODEC(ZSTD(1)),
    attributes      String CODEC(ZSTD(1)),
    payload         String CODEC(ZSTD(1)),
    log             String CODEC(ZSTD(1)),
    log_offset      UInt64 CODEC(Delta, ZSTD(1)),
    INDEX by_id       id         TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_trace_id trace_id   TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX by_receipt  receipt_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_offset   log_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(received_at)
ORDER BY (environment_id, toDate(timestamp), type, timestamp)
TTL toDateTime(received_at) + INTERVAL {telemetry_events}
SETTINGS
    non_replicated_deduplication_window = 1000,
    fsync_after_insert = 1,
    fsync_part_directory = 1,
    ttl_only_drop_parts = 1,
    min_parts_to_merge_at_once = 8;

-- What was seen of each queue over time. Snapshots are told apart by their ID: one that was sent again has a row each,
-- so a reader takes the first of (queue_id, snapshot_id).
CREATE TABLE IF NOT EXISTS pharos.queue_snapshots
(
    environment_id       LowCardinality(String),
    queue_id             UInt64 CODEC(ZSTD(1)),
    snapshot_id          UUID CODEC(ZSTD(1)),
    observed_at          DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)),
    received_at          DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    pending              UInt64 CODEC(T64, ZSTD(1)),
    delayed              Nullable(UInt64) CODEC(T64, ZSTD(1)),
    reserved             Nullable(UInt64) CODEC(T64, ZSTD(1)),
    failed               Nullable(UInt64) CODEC(T64, ZSTD(1)),
    oldest_wait_seconds  Nullable(UInt64) CODEC(T64, ZSTD(1)),
    log                  String CODEC(ZSTD(1)),
    log_offset           UInt64 CODEC(Delta, ZSTD(1)),
    INDEX by_offset log_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toMonday(received_at)
ORDER BY (queue_id, observed_at, snapshot_id)
TTL toDateTime(received_at) + INTERVAL {queue_history}
SETTINGS
    non_replicated_deduplication_window = 1000,
    fsync_after_insert = 1,
    fsync_part_directory = 1,
    ttl_only_drop_parts = 1;

-- Every update of a worker that was received, those too that came too late to count.
CREATE TABLE IF NOT EXISTS pharos.queue_worker_updates
(
    environment_id  LowCardinality(String),
    queue_id        UInt64 CODEC(ZSTD(1)),
    worker_id       UUID CODEC(ZSTD(1)),
    sequence        UInt64 CODEC(T64, ZSTD(1)),
    status          LowCardinality(String),
    job_id          Nullable(UUID) CODEC(ZSTD(1)),
    received_at     DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    log             String CODEC(ZSTD(1)),
    log_offset      UInt64 CODEC(Delta, ZSTD(1)),
    INDEX by_offset log_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toMonday(received_at)
ORDER BY (queue_id, worker_id, sequence)
TTL toDateTime(received_at) + INTERVAL {queue_history}
SETTINGS
    non_replicated_deduplication_window = 1000,
    fsync_after_insert = 1,
    fsync_part_directory = 1,
    ttl_only_drop_parts = 1;

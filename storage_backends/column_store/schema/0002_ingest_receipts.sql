-- What became of each record of the ingest topic: a row when its batch was stored, another each time that the
-- batch was sent again. Read by receipt, so the key leads with it and granules are small: a chunk looks some
-- hundred random receipts up before it inserts.
CREATE TABLE IF NOT EXISTS pharos.ingest_receipts
(
    receipt_id      String CODEC(ZSTD(1)),
    environment_id  LowCardinality(String),
    batch_id        String CODEC(ZSTD(1)),
    outcome         Enum8('stored' = 1, 'duplicate' = 2, 'failed' = 3),
    received        UInt32 CODEC(T64, ZSTD(1)),
    clamped         UInt32 CODEC(T64, ZSTD(1)),
    received_at     DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    stored_at       DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta, ZSTD(1)),
    errors          Array(String) CODEC(ZSTD(1)),
    log             String CODEC(ZSTD(1)),
    log_offset      UInt64 CODEC(Delta, ZSTD(1)),
    INDEX by_offset log_offset TYPE minmax GRANULARITY 8
)
ENGINE = MergeTree
PARTITION BY toMonday(received_at)
ORDER BY receipt_id
TTL toDateTime(received_at) + INTERVAL {ingest_receipts}
SETTINGS
    index_granularity = 512,
    non_replicated_deduplication_window = 1000,
    fsync_after_insert = 1,
    fsync_part_directory = 1,
    ttl_only_drop_parts = 1,
    min_parts_to_merge_at_once = 8;

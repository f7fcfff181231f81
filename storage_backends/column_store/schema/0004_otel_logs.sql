-- One row per log record of POST /v1/otlp/v1/logs, in the columns of the OpenTelemetry ClickHouse exporter; what is
-- added is told in 0003_otel_traces.sql.
CREATE TABLE IF NOT EXISTS pharos.otel_logs
(
    Timestamp           DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    TimestampTime       DateTime('UTC') DEFAULT toDateTime(Timestamp),
    TraceId             String CODEC(ZSTD(1)),
    SpanId              String CODEC(ZSTD(1)),
    TraceFlags          UInt8,
    SeverityText        LowCardinality(String) CODEC(ZSTD(1)),
    SeverityNumber      UInt8,
    ServiceName         LowCardinality(String) CODEC(ZSTD(1)),
    Body                String CODEC(ZSTD(1)),
    ResourceSchemaUrl   LowCardinality(String) CODEC(ZSTD(1)),
    ResourceAttributes  Map(String, String) CODEC(ZSTD(1)),
    ScopeSchemaUrl      LowCardinality(String) CODEC(ZSTD(1)),
    ScopeName           String CODEC(ZSTD(1)),
    ScopeVersion        LowCardinality(String) CODEC(ZSTD(1)),
    ScopeAttributes     Map(String, String) CODEC(ZSTD(1)),
    LogAttributes       Map(String, String) CODEC(ZSTD(1)),
    EventName           LowCardinality(String) CODEC(ZSTD(1)),
    ObservedTimestamp   DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    EnvironmentId       LowCardinality(String) CODEC(ZSTD(1)),
    ReceivedAt          DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    log                 String CODEC(ZSTD(1)),
    log_offset          UInt64 CODEC(Delta, ZSTD(1)),
    INDEX idx_trace_id TraceId TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX idx_res_attr_key mapKeys(ResourceAttributes) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX idx_log_attr_key mapKeys(LogAttributes) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX idx_body Body TYPE tokenbf_v1(32768, 3, 0) GRANULARITY 8,
    INDEX by_offset log_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(ReceivedAt)
ORDER BY (EnvironmentId, toDate(Timestamp), ServiceName, TimestampTime, Timestamp)
TTL toDateTime(ReceivedAt) + INTERVAL {otel_logs}
SETTINGS
    non_replicated_deduplication_window = 1000,
    fsync_after_insert = 1,
    fsync_part_directory = 1,
    ttl_only_drop_parts = 1,
    min_parts_to_merge_at_once = 8;

-- One row per span of POST /v1/otlp/v1/traces, in the columns of the OpenTelemetry ClickHouse exporter: what is made
-- for its tables reads this one too. Added are the environment, the time of receipt (partitions follow it, never the
-- client's clock) and the record that the row came from. The key leads with the environment: a view of one never
-- scans another's. Keys of maps are plain strings: a dictionary a row group costs the insert 2 µs a span, and a read of
-- all of them gains 0.1 (decision 11).
CREATE TABLE IF NOT EXISTS pharos.otel_traces
(
    Timestamp           DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    TraceId             String CODEC(ZSTD(1)),
    SpanId              String CODEC(ZSTD(1)),
    ParentSpanId        String CODEC(ZSTD(1)),
    TraceState          String CODEC(ZSTD(1)),
    SpanName            LowCardinality(String) CODEC(ZSTD(1)),
    SpanKind            LowCardinality(String) CODEC(ZSTD(1)),
    ServiceName         LowCardinality(String) CODEC(ZSTD(1)),
    ResourceAttributes  Map(String, String) CODEC(ZSTD(1)),
    ScopeName           String CODEC(ZSTD(1)),
    ScopeVersion        String CODEC(ZSTD(1)),
    SpanAttributes      Map(String, String) CODEC(ZSTD(1)),
    Duration            UInt64 CODEC(T64, ZSTD(1)),
    StatusCode          LowCardinality(String) CODEC(ZSTD(1)),
    StatusMessage       String CODEC(ZSTD(1)),
    Events              Nested(Timestamp DateTime64(9, 'UTC'), Name LowCardinality(String), Attributes Map(String, String)) CODEC(ZSTD(1)),
    Links               Nested(TraceId String, SpanId String, TraceState String, Attributes Map(String, String)) CODEC(ZSTD(1)),
    ResourceSchemaUrl   String CODEC(ZSTD(1)),
    ScopeSchemaUrl      String CODEC(ZSTD(1)),
    ScopeAttributes     Map(String, String) CODEC(ZSTD(1)),
    Flags               UInt32 CODEC(T64, ZSTD(1)),
    EnvironmentId       LowCardinality(String) CODEC(ZSTD(1)),
    ReceivedAt          DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    log                 String CODEC(ZSTD(1)),
    log_offset          UInt64 CODEC(Delta, ZSTD(1)),
    INDEX idx_trace_id TraceId TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX idx_res_attr_key mapKeys(ResourceAttributes) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX idx_span_attr_key mapKeys(SpanAttributes) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX idx_duration Duration TYPE minmax GRANULARITY 1,
    INDEX by_offset log_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(ReceivedAt)
ORDER BY (EnvironmentId, toDate(Timestamp), ServiceName, SpanName, toDateTime(Timestamp), Timestamp)
TTL toDateTime(ReceivedAt) + INTERVAL {otel_traces}
SETTINGS
    non_replicated_deduplication_window = 1000,
    fsync_after_insert = 1,
    fsync_part_directory = 1,
    ttl_only_drop_parts = 1,
    min_parts_to_merge_at_once = 8;

-- One row per data point of POST /v1/otlp/v1/metrics, a table a kind, in the columns of the OpenTelemetry ClickHouse
-- exporter; what is added is told in 0003_otel_traces.sql. Times have nanoseconds in all of them.
CREATE TABLE IF NOT EXISTS pharos.otel_metrics_gauge
(
    ResourceAttributes     Map(String, String) CODEC(ZSTD(1)),
    ResourceSchemaUrl      String CODEC(ZSTD(1)),
    ScopeName              String CODEC(ZSTD(1)),
    ScopeVersion           String CODEC(ZSTD(1)),
    ScopeAttributes        Map(String, String) CODEC(ZSTD(1)),
    ScopeDroppedAttrCount  UInt32 CODEC(ZSTD(1)),
    ScopeSchemaUrl         String CODEC(ZSTD(1)),
    ServiceName            LowCardinality(String) CODEC(ZSTD(1)),
    MetricName             LowCardinality(String) CODEC(ZSTD(1)),
    MetricDescription      String CODEC(ZSTD(1)),
    MetricUnit             String CODEC(ZSTD(1)),
    Attributes             Map(String, String) CODEC(ZSTD(1)),
    StartTimeUnix          DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    TimeUnix               DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    Value                  Float64 CODEC(ZSTD(1)),
    Flags                  UInt32 CODEC(ZSTD(1)),
    Exemplars              Nested(FilteredAttributes Map(String, String), TimeUnix DateTime64(9, 'UTC'), Value Float64, SpanId String, TraceId String) CODEC(ZSTD(1)),
    EnvironmentId          LowCardinality(String) CODEC(ZSTD(1)),
    ReceivedAt             DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    log                    String CODEC(ZSTD(1)),
    log_offset             UInt64 CODEC(Delta, ZSTD(1)),
    INDEX idx_attr_key mapKeys(Attributes) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_offset log_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(ReceivedAt)
ORDER BY (EnvironmentId, toDate(TimeUnix), MetricName, ServiceName, cityHash64(Attributes), TimeUnix)
TTL toDateTime(ReceivedAt) + INTERVAL {otel_metrics}
SETTINGS
    non_replicated_deduplication_window = 1000,
    fsync_after_insert = 1,
    fsync_part_directory = 1,
    ttl_only_drop_parts = 1,
    min_parts_to_merge_at_once = 8;
CREATE TABLE IF NOT EXISTS pharos.otel_metrics_sum
(
    ResourceAttributes     Map(String, String) CODEC(ZSTD(1)),
    ResourceSchemaUrl      String CODEC(ZSTD(1)),
    ScopeName              String CODEC(ZSTD(1)),
    ScopeVersion           String CODEC(ZSTD(1)),
    ScopeAttributes        Map(String, String) CODEC(ZSTD(1)),
    ScopeDroppedAttrCount  UInt32 CODEC(ZSTD(1)),
    ScopeSchemaUrl         String CODEC(ZSTD(1)),
    ServiceName            LowCardinality(String) CODEC(ZSTD(1)),
    MetricName             LowCardinality(String) CODEC(ZSTD(1)),
    MetricDescription      String CODEC(ZSTD(1)),
    MetricUnit             String CODEC(ZSTD(1)),
    Attributes             Map(String, String) CODEC(ZSTD(1)),
    StartTimeUnix          DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    TimeUnix               DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    Value                  Float64 CODEC(ZSTD(1)),
    Flags                  UInt32 CODEC(ZSTD(1)),
    Exemplars              Nested(FilteredAttributes Map(String, String), TimeUnix DateTime64(9, 'UTC'), Value Float64, SpanId String, TraceId String) CODEC(ZSTD(1)),
    AggregationTemporality Int32 CODEC(ZSTD(1)),
    IsMonotonic            Bool CODEC(ZSTD(1)),
    EnvironmentId          LowCardinality(String) CODEC(ZSTD(1)),
    ReceivedAt             DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    log                    String CODEC(ZSTD(1)),
    log_offset             UInt64 CODEC(Delta, ZSTD(1)),
    INDEX idx_attr_key mapKeys(Attributes) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_offset log_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(ReceivedAt)
ORDER BY (EnvironmentId, toDate(TimeUnix), MetricName, ServiceName, cityHash64(Attributes), TimeUnix)
TTL toDateTime(ReceivedAt) + INTERVAL {otel_metrics}
SETTINGS
    non_replicated_deduplication_window = 1000,
    fsync_after_insert = 1,
    fsync_part_directory = 1,
    ttl_only_drop_parts = 1,
    min_parts_to_merge_at_once = 8;
CREATE TABLE IF NOT EXISTS pharos.otel_metrics_histogram
(
    ResourceAttributes     Map(String, String) CODEC(ZSTD(1)),
    ResourceSchemaUrl      String CODEC(ZSTD(1)),
    ScopeName              String CODEC(ZSTD(1)),
    ScopeVersion           String CODEC(ZSTD(1)),
    ScopeAttributes        Map(String, String) CODEC(ZSTD(1)),
    ScopeDroppedAttrCount  UInt32 CODEC(ZSTD(1)),
    ScopeSchemaUrl         String CODEC(ZSTD(1)),
    ServiceName            LowCardinality(String) CODEC(ZSTD(1)),
    MetricName             LowCardinality(String) CODEC(ZSTD(1)),
    MetricDescription      String CODEC(ZSTD(1)),
    MetricUnit             String CODEC(ZSTD(1)),
    Attributes             Map(String, String) CODEC(ZSTD(1)),
    StartTimeUnix          DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    TimeUnix               DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    Count                  UInt64 CODEC(Delta, ZSTD(1)),
    Sum                    Float64 CODEC(ZSTD(1)),
    BucketCounts           Array(UInt64) CODEC(ZSTD(1)),
    ExplicitBounds         Array(Float64) CODEC(ZSTD(1)),
    Exemplars              Nested(FilteredAttributes Map(String, String), TimeUnix DateTime64(9, 'UTC'), Value Float64, SpanId String, TraceId String) CODEC(ZSTD(1)),
    Flags                  UInt32 CODEC(ZSTD(1)),
    Min                    Float64 CODEC(ZSTD(1)),
    Max                    Float64 CODEC(ZSTD(1)),
    AggregationTemporality Int32 CODEC(ZSTD(1)),
    EnvironmentId          LowCardinality(String) CODEC(ZSTD(1)),
    ReceivedAt             DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    log                    String CODEC(ZSTD(1)),
    log_offset             UInt64 CODEC(Delta, ZSTD(1)),
    INDEX idx_attr_key mapKeys(Attributes) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_offset log_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(ReceivedAt)
ORDER BY (EnvironmentId, toDate(TimeUnix), MetricName, ServiceName, cityHash64(Attributes), TimeUnix)
TTL toDateTime(ReceivedAt) + INTERVAL {otel_metrics}
SETTINGS
    non_replicated_deduplication_window = 1000,
    fsync_after_insert = 1,
    fsync_part_directory = 1,
    ttl_only_drop_parts = 1,
    min_parts_to_merge_at_once = 8;
CREATE TABLE IF NOT EXISTS pharos.otel_metrics_exponential_histogram
(
    ResourceAttributes     Map(String, String) CODEC(ZSTD(1)),
    ResourceSchemaUrl      String CODEC(ZSTD(1)),
    ScopeName              String CODEC(ZSTD(1)),
    ScopeVersion           String CODEC(ZSTD(1)),
    ScopeAttributes        Map(String, String) CODEC(ZSTD(1)),
    ScopeDroppedAttrCount  UInt32 CODEC(ZSTD(1)),
    ScopeSchemaUrl         String CODEC(ZSTD(1)),
    ServiceName            LowCardinality(String) CODEC(ZSTD(1)),
    MetricName             LowCardinality(String) CODEC(ZSTD(1)),
    MetricDescription      String CODEC(ZSTD(1)),
    MetricUnit             String CODEC(ZSTD(1)),
    Attributes             Map(String, String) CODEC(ZSTD(1)),
    StartTimeUnix          DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    TimeUnix               DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    Count                  UInt64 CODEC(Delta, ZSTD(1)),
    Sum                    Float64 CODEC(ZSTD(1)),
    Scale                  Int32 CODEC(ZSTD(1)),
    ZeroCount              UInt64 CODEC(ZSTD(1)),
    ZeroThreshold          Float64 CODEC(ZSTD(1)),
    PositiveOffset         Int32 CODEC(ZSTD(1)),
    PositiveBucketCounts   Array(UInt64) CODEC(ZSTD(1)),
    NegativeOffset         Int32 CODEC(ZSTD(1)),
    NegativeBucketCounts   Array(UInt64) CODEC(ZSTD(1)),
    Exemplars              Nested(FilteredAttributes Map(String, String), TimeUnix DateTime64(9, 'UTC'), Value Float64, SpanId String, TraceId String) CODEC(ZSTD(1)),
    Flags                  UInt32 CODEC(ZSTD(1)),
    Min                    Float64 CODEC(ZSTD(1)),
    Max                    Float64 CODEC(ZSTD(1)),
    AggregationTemporality Int32 CODEC(ZSTD(1)),
    EnvironmentId          LowCardinality(String) CODEC(ZSTD(1)),
    ReceivedAt             DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    log                    String CODEC(ZSTD(1)),
    log_offset             UInt64 CODEC(Delta, ZSTD(1)),
    INDEX idx_attr_key mapKeys(Attributes) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_offset log_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(ReceivedAt)
ORDER BY (EnvironmentId, toDate(TimeUnix), MetricName, ServiceName, cityHash64(Attributes), TimeUnix)
TTL toDateTime(ReceivedAt) + INTERVAL {otel_metrics}
SETTINGS
    non_replicated_deduplication_window = 1000,
    fsync_after_insert = 1,
    fsync_part_directory = 1,
    ttl_only_drop_parts = 1,
    min_parts_to_merge_at_once = 8;
CREATE TABLE IF NOT EXISTS pharos.otel_metrics_summary
(
    ResourceAttributes     Map(String, String) CODEC(ZSTD(1)),
    ResourceSchemaUrl      String CODEC(ZSTD(1)),
    ScopeName              String CODEC(ZSTD(1)),
    ScopeVersion           String CODEC(ZSTD(1)),
    ScopeAttributes        Map(String, String) CODEC(ZSTD(1)),
    ScopeDroppedAttrCount  UInt32 CODEC(ZSTD(1)),
    ScopeSchemaUrl         String CODEC(ZSTD(1)),
    ServiceName            LowCardinality(String) CODEC(ZSTD(1)),
    MetricName             LowCardinality(String) CODEC(ZSTD(1)),
    MetricDescription      String CODEC(ZSTD(1)),
    MetricUnit             String CODEC(ZSTD(1)),
    Attributes             Map(String, String) CODEC(ZSTD(1)),
    StartTimeUnix          DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    TimeUnix               DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    Count                  UInt64 CODEC(Delta, ZSTD(1)),
    Sum                    Float64 CODEC(ZSTD(1)),
    ValueAtQuantiles       Nested(Quantile Float64, Value Float64) CODEC(ZSTD(1)),
    Flags                  UInt32 CODEC(ZSTD(1)),
    EnvironmentId          LowCardinality(String) CODEC(ZSTD(1)),
    ReceivedAt             DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    log                    String CODEC(ZSTD(1)),
    log_offset             UInt64 CODEC(Delta, ZSTD(1)),
    INDEX idx_attr_key mapKeys(Attributes) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_offset log_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(ReceivedAt)
ORDER BY (EnvironmentId, toDate(TimeUnix), MetricName, ServiceName, cityHash64(Attributes), TimeUnix)
TTL toDateTime(ReceivedAt) + INTERVAL {otel_metrics}
SETTINGS
    non_replicated_deduplication_window = 1000,
    fsync_after_insert = 1,
    fsync_part_directory = 1,
    ttl_only_drop_parts = 1,
    min_parts_to_merge_at_once = 8;

-- One row per event of POST /v1/collect: page views, custom events, engagement, Web Vitals.
-- `visitor` and `visit_id` are hashes
-- that nobody can turn back once the day's salt is deleted; `visit_key` is the visitor or the session by which the visit
-- was found, `before_key` what either was called the day before, and `visit_began` the time of the event that began it. `day` is the event's day in UTC: the sites' own days
-- are told from it and the time. Partitions follow the time of receipt; `log` and `log_offset` name the record.
CREATE TABLE IF NOT EXISTS pharos.pageviews
(
    site_id        UInt64 CODEC(ZSTD(1)),
    day            Date CODEC(ZSTD(1)),
    visit_id       UInt64 CODEC(ZSTD(1)),
    occurred_at    DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    received_at    DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    id             UUID CODEC(ZSTD(1)),
    is_event       Bool CODEC(ZSTD(1)),
    name           LowCardinality(String) CODEC(ZSTD(1)),
    path           LowCardinality(String) CODEC(ZSTD(1)),
    visit_began    DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    visitor        UInt64 CODEC(ZSTD(1)),
    visit_key      UInt64 CODEC(ZSTD(1)),
    before_key     UInt64 CODEC(ZSTD(1)),
    source         LowCardinality(String) CODEC(ZSTD(1)),
    referrer_host  LowCardinality(String) CODEC(ZSTD(1)),
    medium         LowCardinality(String) CODEC(ZSTD(1)),
    campaign       LowCardinality(String) CODEC(ZSTD(1)),
    device         LowCardinality(String) CODEC(ZSTD(1)),
    browser        LowCardinality(String) CODEC(ZSTD(1)),
    os             LowCardinality(String) CODEC(ZSTD(1)),
    country        LowCardinality(String) CODEC(ZSTD(1)),
    url            String CODEC(ZSTD(1)),
    visible_ms     UInt32 CODEC(T64, ZSTD(1)),
    metric         LowCardinality(String) CODEC(ZSTD(1)),
    value          Float64 CODEC(ZSTD(1)),
    vital          UInt64 CODEC(ZSTD(1)),
    revenue        Int64 CODEC(T64, ZSTD(1)),
    currency       LowCardinality(String) CODEC(ZSTD(1)),
    properties     String CODEC(ZSTD(1)),
    log            LowCardinality(String) CODEC(ZSTD(1)),
    log_offset     UInt64 CODEC(Delta, ZSTD(1)),
    INDEX by_offset log_offset TYPE minmax GRANULARITY 1,
    -- How many events lie on each day: reports ask whether what they know of a day is all of it.
    PROJECTION events_of_day (SELECT site_id, day, count() GROUP BY site_id, day)
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(received_at)
ORDER BY (site_id, day, visit_id)
TTL toDateTime(received_at) + INTERVAL {pageviews}
SETTINGS
    non_replicated_deduplication_window = 1000,
    fsync_after_insert = 1,
    fsync_part_directory = 1,
    ttl_only_drop_parts = 1;

-- How many events were dropped at the edges instead, by reason: bots, visitors who opted out. A row says what one edge has
-- dropped in some seconds.
CREATE TABLE IF NOT EXISTS pharos.dropped_pageviews
(
    site_id      UInt64 CODEC(ZSTD(1)),
    received_at  DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    reason       LowCardinality(String) CODEC(ZSTD(1)),
    events       UInt64 CODEC(T64, ZSTD(1)),
    log          LowCardinality(String) CODEC(ZSTD(1)),
    log_offset   UInt64 CODEC(Delta, ZSTD(1)),
    INDEX by_offset log_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(received_at)
ORDER BY (site_id, received_at)
TTL toDateTime(received_at) + INTERVAL {dropped_pageviews}
SETTINGS
    non_replicated_deduplication_window = 1000,
    fsync_after_insert = 1,
    fsync_part_directory = 1,
    ttl_only_drop_parts = 1;

-- The events of the last days by their ID: has this one been stored already? In the order of IDs and with a mark for each
-- 256 rows, so that a look-up reads little however many there are. IDs are random: in `pageviews` they lie everywhere.
CREATE TABLE IF NOT EXISTS pharos.pageview_ids
(
    id           UUID CODEC(ZSTD(1)),
    site_id      UInt64 CODEC(ZSTD(1)),
    received_at  DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    stored_at    DateTime DEFAULT now() CODEC(Delta, ZSTD(1)),
    log          LowCardinality(String) CODEC(ZSTD(1)),
    log_offset   UInt64 CODEC(Delta, ZSTD(1)),
    INDEX by_offset log_offset TYPE minmax GRANULARITY 32
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(received_at)
ORDER BY (id, site_id)
TTL stored_at + INTERVAL {pageview_ids}
SETTINGS
    index_granularity = 256,
    non_replicated_deduplication_window = 1000,
    fsync_after_insert = 1,
    fsync_part_directory = 1;

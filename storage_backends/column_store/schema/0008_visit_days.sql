-- Daily rollups: the visits of each day, as `analytics_queries/visits/refresh_rollups.sql` computes them from `pageviews`.
-- Reports read these instead of grouping millions of events. A row belongs to one `run`; only runs that `told_days` names are
-- read, so unfinished or repeated runs change nothing.
CREATE TABLE IF NOT EXISTS pharos.visit_days
(
    site_id      UInt64 CODEC(ZSTD(1)),
    day          Date CODEC(ZSTD(1)),
    run          UInt64 CODEC(ZSTD(1)),
    told_at      DateTime DEFAULT now() CODEC(ZSTD(1)),
    visit_id     UInt64 CODEC(ZSTD(1)),
    visitor      UInt64 CODEC(ZSTD(1)),
    is_single    Bool CODEC(ZSTD(1)),
    present_at   DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    is_present   Bool CODEC(ZSTD(1)),
    is_start     Bool CODEC(ZSTD(1)),
    started_at   DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    duration_ms  UInt64 CODEC(T64, ZSTD(1)),
    is_bounce    Bool CODEC(ZSTD(1)),
    source       LowCardinality(String) CODEC(ZSTD(1)),
    campaign     LowCardinality(String) CODEC(ZSTD(1)),
    device       LowCardinality(String) CODEC(ZSTD(1)),
    country      LowCardinality(String) CODEC(ZSTD(1)),
    browser      LowCardinality(String) CODEC(ZSTD(1)),
    os           LowCardinality(String) CODEC(ZSTD(1)),
    entry_page   LowCardinality(String) CODEC(ZSTD(1)),
    exit_page    LowCardinality(String) CODEC(ZSTD(1)),
    pages        Array(LowCardinality(String)) CODEC(ZSTD(1)),
    views        UInt32 CODEC(T64, ZSTD(1)),
    page_views   Array(UInt32) CODEC(ZSTD(1)),
    page_times   Array(Array(Int64)) CODEC(ZSTD(1)),
    other_pages  Array(LowCardinality(String)) CODEC(ZSTD(1)),
    actions      Array(Tuple(at Int64, name LowCardinality(String), label String, revenue Int64,
                     currency LowCardinality(String))) CODEC(ZSTD(1)),
    vitals       Array(Tuple(metric LowCardinality(String), value Float64)) CODEC(ZSTD(1))
)
ENGINE = MergeTree
PARTITION BY toYear(day)
ORDER BY (site_id, day, run)
TTL day + INTERVAL {daily_rollups}
SETTINGS ttl_only_drop_parts = 1;

-- Rollups of days that have not ended: computed again for each report after new events, and dropped soon.
CREATE TABLE IF NOT EXISTS pharos.open_visit_days AS pharos.visit_days
ENGINE = MergeTree
PARTITION BY toStartOfHour(told_at)
ORDER BY (site_id, day, run)
TTL told_at + INTERVAL {open_visit_days}
SETTINGS ttl_only_drop_parts = 1;

-- The lists of all visits of a day. Visitors are pairs of visitor and day, so the lists of several days can be added.
CREATE TABLE IF NOT EXISTS pharos.visit_day_lists
(
    site_id   UInt64 CODEC(ZSTD(1)),
    day       Date CODEC(ZSTD(1)),
    run       UInt64 CODEC(ZSTD(1)),
    list      LowCardinality(String) CODEC(ZSTD(1)),
    name      String CODEC(ZSTD(1)),
    visitors  UInt64 CODEC(T64, ZSTD(1)),
    number    UInt64 CODEC(T64, ZSTD(1))
)
ENGINE = MergeTree
PARTITION BY toYear(day)
ORDER BY (site_id, day, run, list)
TTL day + INTERVAL {daily_rollups}
SETTINGS ttl_only_drop_parts = 1;

-- The current run of each day, and the number of events that it was computed from: with more events the rollup is stale. Both
-- counts include all events that may change the day: `near_events` is exact, `far_events` counts whole days in UTC, which is
-- faster, and right once these days have ended. Rollups of days that have not ended are current for a while only.
CREATE TABLE IF NOT EXISTS pharos.told_days
(
    site_id      UInt64 CODEC(ZSTD(1)),
    timezone     LowCardinality(String) CODEC(ZSTD(1)),
    day          Date CODEC(ZSTD(1)),
    run          UInt64 CODEC(ZSTD(1)),
    near_events  UInt64 CODEC(ZSTD(1)),
    far_events   UInt64 CODEC(ZSTD(1)),
    is_open      Bool CODEC(ZSTD(1)),
    told_at      DateTime64(3, 'UTC') CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree(told_at)
PARTITION BY toYear(day)
ORDER BY (site_id, timezone, day)
TTL day + INTERVAL {daily_rollups}
SETTINGS ttl_only_drop_parts = 1;

-- Figures of all visits of a day that is over, and of its events, as `analytics_queries/visits/stored_days.sql` computes
-- them from `visit_days`. Visitors are those of the day, so the rows of several days can be added. `goals` is a digest of the
-- goals of `converted`. A row may be written twice; both are the same.
CREATE TABLE IF NOT EXISTS pharos.visit_day_figures
(
    site_id      UInt64 CODEC(ZSTD(1)),
    day          Date CODEC(ZSTD(1)),
    run          UInt64 CODEC(ZSTD(1)),
    goals        UInt64 CODEC(ZSTD(1)),
    pageviews    UInt64 CODEC(T64, ZSTD(1)),
    visitors     UInt64 CODEC(T64, ZSTD(1)),
    visits       UInt64 CODEC(T64, ZSTD(1)),
    bounces      UInt64 CODEC(T64, ZSTD(1)),
    duration_ms  UInt64 CODEC(T64, ZSTD(1)),
    converted    UInt64 CODEC(T64, ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYear(day)
ORDER BY (site_id, day, run, goals)
TTL day + INTERVAL {daily_rollups}
SETTINGS ttl_only_drop_parts = 1;

-- How often each event was sent on a day, with its revenue by currency (millionths).
CREATE TABLE IF NOT EXISTS pharos.visit_day_events
(
    site_id   UInt64 CODEC(ZSTD(1)),
    day       Date CODEC(ZSTD(1)),
    run       UInt64 CODEC(ZSTD(1)),
    name      String CODEC(ZSTD(1)),
    visitors  UInt64 CODEC(T64, ZSTD(1)),
    number    UInt64 CODEC(T64, ZSTD(1)),
    money     Array(Tuple(String, Int64)) CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYear(day)
ORDER BY (site_id, day, run, name)
TTL day + INTERVAL {daily_rollups}
SETTINGS ttl_only_drop_parts = 1;

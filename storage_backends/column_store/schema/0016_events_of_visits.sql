-- How many events a row of a rollup was computed from: `events` of its visit, and `day_events` of them that count on its day. After
-- new events, a report computes those visits of today again whose numbers have changed (decision 59). Rows from before have 0,
-- which no visit has, so they are computed again. `visit_days` has the columns because queries join the two tables by position; they
-- are 0 there.
ALTER TABLE pharos.visit_days
    ADD COLUMN IF NOT EXISTS events UInt64 CODEC(T64, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS day_events UInt64 CODEC(T64, ZSTD(1));
ALTER TABLE pharos.open_visit_days
    ADD COLUMN IF NOT EXISTS events UInt64 CODEC(T64, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS day_events UInt64 CODEC(T64, ZSTD(1));

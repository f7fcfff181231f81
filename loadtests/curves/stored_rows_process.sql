-- name: add_ids
-- The IDs of the last 4 days of the page views with numbers from `first` on, as the consumer stores them for its look-up.
INSERT INTO pharos.pageview_ids (id, site_id, received_at, log, log_offset)
SELECT id, site_id, received_at, log, log_offset
FROM pharos.pageviews
WHERE day > today() - 4 AND log = 'bench' AND log_offset >= {first:UInt64};

-- name: add_receipts
-- Receipts of `rows` batches with numbers from `first` on, which came within a day, `days` days ago.
INSERT INTO pharos.ingest_receipts
(receipt_id, environment_id, batch_id, outcome, received, received_at, stored_at, log, log_offset)
SELECT
    concat('rcp_', substring(lower(hex(sipHash128(number))), 1, 24)), concat('env_', toString(number % 1000)),
    concat('batch-', toString(number)), 'stored', 100,
    now64(3) - INTERVAL {days:UInt32} DAY - INTERVAL (number % 86400) SECOND AS at, at, 'bench', number
FROM numbers({first:UInt64}, {rows:UInt64});

-- name: some_names
-- Names of 500 batches, none of which is stored.
SELECT concat('rcp_', substring(lower(hex(sipHash128(number, {salt:UInt64}))), 1, 24)) FROM numbers(500);

-- How long did the receipts that were stored in the last minutes wait since they were received, at most, in milliseconds, and how
-- many records could not be processed in the last hour? By the store's clock.
SELECT
    countIf(stored_at > now64(3) - toIntervalSecond({lag_seconds:UInt32})) AS stored,
    maxIf(dateDiff('millisecond', received_at, stored_at), stored_at > now64(3) - toIntervalSecond({lag_seconds:UInt32})) AS lag_ms,
    countIf(outcome = 'failed' AND stored_at > now64(3) - toIntervalSecond({failed_seconds:UInt32})) AS failed
FROM pharos.ingest_receipts
WHERE received_at >= now64(3) - INTERVAL 1 DAY AND outcome != 'duplicate'

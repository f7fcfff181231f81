-- What is the status of one batch and its repetitions?
SELECT
    anyIf(r.batch_id, r.outcome != 'duplicate')     AS stored_batch_id,
    any(r.batch_id)                                 AS any_batch_id,
    sumIf(r.received, r.outcome = 'stored')         AS stored,
    maxIf(r.received, r.outcome != 'duplicate')     AS received,
    sumIf(r.received, r.outcome = 'duplicate')      AS duplicates,
    sumIf(r.clamped, r.outcome = 'stored')          AS clamped,
    countIf(r.outcome = 'stored')                   AS times_stored,
    countIf(r.outcome = 'failed')                   AS times_failed,
    count()                                         AS reports,
    min(r.received_at)                              AS first_received_at,
    minIf(r.stored_at, r.outcome = 'stored')        AS first_stored_at,
    groupUniqArrayArray(50)(r.errors)               AS errors
FROM pharos.ingest_receipts AS r
WHERE r.receipt_id = {receipt:String} AND r.environment_id = {environment:String}

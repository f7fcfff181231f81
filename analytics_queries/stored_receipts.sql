-- Which of these receipts are stored, and from which record of the log?
SELECT receipt_id, log, log_offset
FROM pharos.ingest_receipts
WHERE receipt_id IN {receipts:Array(String)} AND outcome = 'stored'

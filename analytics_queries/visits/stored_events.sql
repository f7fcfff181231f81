-- Which of these events of sites are stored, and when were they received? Omits events from records of the log `log`
-- from `from_offset` on, which are being stored now. PREWHERE: the other columns are read for the found events alone.
SELECT site_id, id, max(toUnixTimestamp64Milli(received_at)) AS received_ms
FROM pharos.pageview_ids
PREWHERE id IN {ids:Array(UUID)}
WHERE site_id IN {sites:Array(UInt64)} AND NOT (log = {log:String} AND log_offset >= {from_offset:UInt64})
GROUP BY site_id, id

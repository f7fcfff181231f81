-- Which of these events of sites are stored, and when were they received? Leaves out what the log `log` has from
-- `from_offset` on: that is being stored now.
SELECT site_id, id, max(toUnixTimestamp64Milli(received_at)) AS received_ms
FROM pharos.pageview_ids
WHERE id IN {ids:Array(UUID)} AND site_id IN {sites:Array(UInt64)}
    AND NOT (log = {log:String} AND log_offset >= {from_offset:UInt64})
GROUP BY site_id, id

-- How many events of a site were dropped at the edges since `since_ms`, by reason?
SELECT reason, sum(events) AS dropped
FROM pharos.dropped_pageviews
WHERE site_id = {site_id:UInt64} AND received_at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
GROUP BY reason
ORDER BY dropped DESC, reason

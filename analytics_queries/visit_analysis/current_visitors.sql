-- How many visitors have sent an event since `since_ms`, on each of these sites? `since` is that day in UTC.
SELECT site_id, uniqExact(visitor) AS visitors
FROM pharos.pageviews
WHERE site_id IN {site_ids:Array(UInt64)} AND day >= {since:Date} AND occurred_at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
GROUP BY site_id

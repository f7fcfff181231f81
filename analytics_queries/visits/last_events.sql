-- When was each of these sites' newest event received, of events that happened on `since` (UTC) or later?
SELECT site_id, max(received_at)
FROM pharos.pageviews
WHERE site_id IN {site_ids:Array(UInt64)} AND day >= {since:Date}
GROUP BY site_id

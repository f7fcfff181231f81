-- How many page views do these sites have of each day (UTC) since `since`?
SELECT site_id, day, countIf(NOT is_event) AS pageviews
FROM pharos.pageviews
WHERE site_id IN {site_ids:Array(UInt64)} AND day >= {since:Date}
GROUP BY site_id, day
HAVING pageviews > 0

-- From how many events were a site's daily rollups computed, and how many are there now? `kind` is
--   rollup:  the current run of `day`; numbers: the two counts that it was computed from, and 1 if the day was not over
--   far:     numbers: events that lie on `day` in UTC
--   near:    numbers, for each of the last three days of the site: events before `now_ms` that lie on its days in UTC or later, in
--            visits that had begun before it ended. The days in UTC begin with `near_begin`, the day ends at `near_end_ms`.
SELECT 'rollup' AS kind, day, run, [near_events, far_events, toUInt64(is_open)] AS numbers
FROM pharos.told_days
WHERE site_id = {site_id:UInt64} AND timezone = {timezone:String} AND day >= {first:Date} AND day <= {last:Date}
    AND (NOT is_open OR told_at > now64(3) - INTERVAL 30 MINUTE)
ORDER BY told_at DESC, run DESC
LIMIT 1 BY day
UNION ALL
SELECT 'far', day, 0, [count()]
FROM pharos.pageviews
WHERE site_id = {site_id:UInt64} AND day >= {first:Date} - 3 AND day <= {last:Date} + 3
GROUP BY day
UNION ALL
SELECT
    'near', {last:Date}, 0,
    [
        countIf(day >= {near_begin:Array(Date)}[1] AND visit_began < fromUnixTimestamp64Milli({near_end_ms:Array(Int64)}[1], 'UTC')),
        countIf(day >= {near_begin:Array(Date)}[2] AND visit_began < fromUnixTimestamp64Milli({near_end_ms:Array(Int64)}[2], 'UTC')),
        countIf(day >= {near_begin:Array(Date)}[3] AND visit_began < fromUnixTimestamp64Milli({near_end_ms:Array(Int64)}[3], 'UTC'))
    ]
FROM pharos.pageviews
WHERE site_id = {site_id:UInt64} AND day >= {near_begin:Array(Date)}[1] AND day <= {last:Date} + 3
    AND occurred_at < fromUnixTimestamp64Milli({now_ms:Int64}, 'UTC')

-- From how many events were a site's daily rollups computed, and how many are there now? `kind` is
--   rollup:  the current run of `day`, with the two counts that it was computed from
--   far:     events that lie on `day` in UTC
--   near:    of a day that has just ended or not ended: events before `now_ms` that lie on its days in UTC or later, in visits
--            that had begun before it ended. Its days in UTC begin with `near_begin`, it ends at `near_end_ms`.
SELECT 'rollup' AS kind, day, run, near_events AS events, far_events
FROM pharos.told_days
WHERE site_id = {site_id:UInt64} AND timezone = {timezone:String} AND day >= {first:Date} AND day <= {last:Date}
    AND (NOT is_open OR told_at > now64(3) - INTERVAL 30 MINUTE)
ORDER BY told_at DESC, run DESC
LIMIT 1 BY day
UNION ALL
SELECT 'far', day, 0, count(), 0
FROM pharos.pageviews
WHERE site_id = {site_id:UInt64} AND day >= {first:Date} - 3 AND day <= {last:Date} + 3
GROUP BY day
UNION ALL
SELECT 'near', near_day, 0, events, 0
FROM
(
    SELECT
        [
            countIf(day >= {near_begin:Array(Date)}[1] AND visit_began < ends[1]),
            countIf(day >= {near_begin:Array(Date)}[2] AND visit_began < ends[2]),
            countIf(day >= {near_begin:Array(Date)}[3] AND visit_began < ends[3])
        ] AS counts
    FROM
    (
        SELECT
            day, visit_began,
            arrayMap(end_ms -> fromUnixTimestamp64Milli(end_ms, 'UTC'), {near_end_ms:Array(Int64)}) AS ends
        FROM pharos.pageviews
        WHERE site_id = {site_id:UInt64} AND day >= {near_begin:Array(Date)}[1] AND day <= {last:Date} + 3
            AND occurred_at < fromUnixTimestamp64Milli({now_ms:Int64}, 'UTC')
    )
)
ARRAY JOIN {near_days:Array(Date)} AS near_day, counts AS events

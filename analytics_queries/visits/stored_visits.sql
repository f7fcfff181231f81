-- Which stored visits may an event still join: those with an event since `since_ms` (`keys` empty), or those that have one of
-- the keys? Only events of the log `log` before `before_offset`: later events are being assigned to visits now. Returns the
-- newest `most`.
SELECT
    site_id,
    visit_id,
    groupUniqArray(visit_key) AS keys,
    groupUniqArrayIf(before_key, before_key != 0) AS before_keys,
    min(toUnixTimestamp64Milli(occurred_at)) AS first_ms,
    max(toUnixTimestamp64Milli(occurred_at)) AS last_ms
FROM pharos.pageviews
WHERE log = {log:String} AND log_offset < {before_offset:UInt64} AND day >= {since:Date}
    AND visit_id IN (
        SELECT visit_id
        FROM pharos.pageviews
        WHERE log = {log:String} AND log_offset < {before_offset:UInt64} AND day >= {since:Date}
            AND (
                (empty({keys:Array(UInt64)}) AND toUnixTimestamp64Milli(occurred_at) >= {since_ms:Int64})
                OR visit_key IN {keys:Array(UInt64)}
                OR before_key IN {keys:Array(UInt64)}
            )
    )
GROUP BY site_id, visit_id
ORDER BY last_ms DESC, site_id, visit_id
LIMIT {most:UInt64}

-- How many page views, visitors and visits did a site have in each hour of a day, up to now? `hour` counts from the day's
-- start; `first` and `last` are that one day. The module inserts the visits of the day.
WITH
    stored AS
    (
        {visits_of_days}
    ),
    -- Those that the filters keep. A filter that is not given costs nothing: the engine drops what is always true.
    visits AS
    (
        SELECT *
        FROM stored
        WHERE ({source:String} = '' OR source = {source:String})
            AND ({campaign:String} = '' OR campaign = {campaign:String})
            AND ({device:String} = '' OR device = {device:String})
            AND ({country:String} = '' OR country = {country:String})
            AND ({path:String} = '' OR has(pages, {path:String}) OR has(other_pages, {path:String}))
    )
SELECT hour, sum(part_pageviews) AS pageviews, sum(part_visitors) AS visitors, sum(part_visits) AS visits
FROM
(
    SELECT
        intDiv(toUnixTimestamp64Milli(occurred_at) - {begin_ms:Int64}, 3600000) AS hour,
        countIf(NOT is_event) AS part_pageviews,
        uniqExactIf(visits.visitor, NOT is_event OR name NOT IN ('Web Vital', 'Engagement')) AS part_visitors,
        0 AS part_visits
    FROM pharos.pageviews
    INNER JOIN (SELECT visit_id, visitor FROM visits) AS visits ON visits.visit_id = pageviews.visit_id
    WHERE site_id = {site_id:UInt64} AND day IN {own_days:Array(Date)}
        AND toUnixTimestamp64Milli(occurred_at) >= {begin_ms:Int64} AND toUnixTimestamp64Milli(occurred_at) < {now_ms:Int64}
    GROUP BY hour
    UNION ALL
    SELECT intDiv(toUnixTimestamp64Milli(started_at) - {begin_ms:Int64}, 3600000) AS hour, 0, 0, count()
    FROM visits
    WHERE is_start AND toUnixTimestamp64Milli(started_at) < {now_ms:Int64}
    GROUP BY hour
)
GROUP BY hour

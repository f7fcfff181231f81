-- How many page views, visitors, visits and conversions did a site have on the days from `first` to `last`, of the last one
-- only before `end_ms`? One row; visitors are pairs of a visit's visitor and a day. `judged` are the visits that count for
-- bounce and duration: with a filter on the path those that entered on it.
WITH
    stored AS
    (
        SELECT *, actions.name AS action_names
        FROM pharos.visit_days
        WHERE site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date} AND run IN {runs:Array(UInt64)}
        UNION ALL
        SELECT *, actions.name AS action_names
        FROM pharos.open_visit_days
        WHERE site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date} AND run IN {runs:Array(UInt64)}
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
SELECT
    sum(part_pageviews) AS pageviews,
    sum(part_visitors) AS visitors,
    sum(part_visits) AS visits,
    sum(part_bounces) AS bounces,
    sum(part_judged) AS judged,
    sum(part_duration_ms) AS duration_ms,
    sum(part_converted) AS converted
FROM
(
    SELECT
        sum(views) AS part_pageviews,
        countIf(is_present AND is_single) + uniqExactIf(visitor, is_present AND NOT is_single) AS part_visitors,
        countIf(is_start) AS part_visits,
        countIf(is_start AND is_judged AND is_bounce) AS part_bounces,
        countIf(is_start AND is_judged) AS part_judged,
        sumIf(duration_ms, is_start AND is_judged) AS part_duration_ms,
        countIf(is_converted AND is_single) + uniqExactIf(visitor, is_converted AND NOT is_single) AS part_converted
    FROM
    (
        SELECT
            visitor, is_single, is_present, is_start, is_bounce, duration_ms, views,
            {path:String} = '' OR entry_page = {path:String} AS is_judged,
            (length({goal_paths:Array(String)}) = 1 AND has(pages, {goal_paths:Array(String)}[1]))
                OR (length({goal_paths:Array(String)}) > 1 AND arrayExists(page -> page IN {goal_paths:Array(String)}, pages))
                OR (notEmpty({goal_events:Array(String)}) AND hasAny(action_names, {goal_events:Array(String)}))
                AS is_converted
        FROM visits
        WHERE day < {last:Date}
    )
    UNION ALL
    -- The last day: what was before its end.
    SELECT
        sum(views_before),
        uniqExactIf(visitor, is_present AND toUnixTimestamp64Milli(present_at) < {end_ms:Int64}),
        countIf(is_start_before),
        countIf(is_start_before AND is_judged AND is_bounce),
        countIf(is_start_before AND is_judged),
        sumIf(duration_ms, is_start_before AND is_judged),
        uniqExactIf(visitor, is_converted)
    FROM
    (
        SELECT
            visitor, is_present, present_at, is_bounce, duration_ms,
            arrayMap(times -> arrayCount(time -> time < {end_ms:Int64}, times), page_times) AS counts,
            arraySum(counts) AS views_before,
            is_start AND toUnixTimestamp64Milli(started_at) < {end_ms:Int64} AS is_start_before,
            {path:String} = '' OR entry_page = {path:String} AS is_judged,
            arrayExists((page, count) -> count > 0 AND has({goal_paths:Array(String)}, toString(page)), pages, counts)
                OR arrayExists(
                    action -> action.at < {end_ms:Int64} AND has({goal_events:Array(String)}, toString(action.name)), actions
                ) AS is_converted
        FROM visits
        WHERE day = {last:Date}
    )
)

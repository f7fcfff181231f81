-- Statements of `period_figures.py`, which joins `visits` and one or both of the others, and inserts the visits of the days: how
-- many page views, visitors, visits and conversions did a site have on the days from `first` to `last`? Visitors are pairs of a
-- visit's visitor and a day. `judged` are the visits that count for bounce and duration: with a filter on the path those that
-- entered on it.

-- name: visits
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
    );

-- name: whole_days
-- Of the days before `cut`.
SELECT
    sum(views) AS pageviews,
    countIf(is_present AND is_single) + uniqExactIf(visitor, is_present AND NOT is_single) AS visitors,
    countIf(is_start) AS visits,
    countIf(is_start AND is_judged AND is_bounce) AS bounces,
    countIf(is_start AND is_judged) AS judged,
    sumIf(duration_ms, is_start AND is_judged) AS duration_ms,
    countIf(is_converted AND is_single) + uniqExactIf(visitor, is_converted AND NOT is_single) AS converted
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
    WHERE day < {cut:Date}
);

-- name: cut_day
-- Of the day `cut`: what was before `end_ms`.
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
    WHERE day = {cut:Date}
);

-- What were the Web Vitals of the pages of a site with the most samples? `p75` as in `page_speed.sql`: of the last value of
-- each ID of a metric of a visit on a day (of the site, and of UTC). `read_days` are the days in UTC of the period.
WITH
    stored AS
    (
        SELECT *, actions.name AS action_names
        FROM pharos.visit_days
        WHERE {has_past:Bool} AND site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date}
            AND run IN {runs:Array(UInt64)}
        UNION ALL
        SELECT *, actions.name AS action_names
        FROM pharos.open_visit_days
        WHERE site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date} AND run IN {runs:Array(UInt64)}
    ),
    -- Visits that meet the conditions of the request (see `conditions.py`).
    visits AS
    (
        SELECT *
        FROM stored
        WHERE {conditions}
    )
SELECT path, metric, samples, p75
FROM
(
    SELECT
        path, metric, length(sorted) AS samples, sorted[intDiv(3 * length(sorted) + 3, 4)] AS p75,
        sum(samples) OVER (PARTITION BY path) AS samples_of_page
    FROM
    (
        SELECT path, metric, arraySort(groupArray(value)) AS sorted
        FROM
        (
            SELECT
                -- An ID belongs to one load of a page. The times of its values differ.
                any(pageviews.path) AS path,
                pageviews.metric AS metric,
                argMax(pageviews.value, occurred_at) AS value
            FROM pharos.pageviews
            WHERE site_id = {site_id:UInt64} AND day IN {read_days:Array(Date)} AND metric != ''
                AND toUnixTimestamp64Milli(occurred_at) >= {begin_ms:Int64} AND toUnixTimestamp64Milli(occurred_at) < {end_ms:Int64}
                AND ({is_filtered:Bool} = false OR visit_id IN (SELECT visit_id FROM visits))
            GROUP BY visit_id, toDate(occurred_at, {timezone:String}), day, metric, vital
        )
        GROUP BY path, metric
    )
)
ORDER BY samples_of_page DESC, path, metric
LIMIT {limit:UInt32}

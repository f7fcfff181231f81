-- What were the Web Vitals of a site? `p75`: the smallest value that three quarters of the samples do not exceed.
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
SELECT metric, length(sorted) AS samples, sorted[intDiv(3 * length(sorted) + 3, 4)] AS p75
FROM
(
    SELECT toString(vital.metric) AS metric, arraySort(groupArray(vital.value)) AS sorted
    FROM visits
    ARRAY JOIN vitals AS vital
    GROUP BY metric
)

-- How often were goals reached, by how many visitors, with what revenue? Rows of three kinds:
--   visitors              visitors of the period (pairs of a visit's visitor and a day), with a conversion of any goal: `number`
--   goal_event, goal_path name: the event or path; number: conversions; money: their revenue by currency (millionths)
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
    ),
    -- Visits with a conversion of any goal. Without goals the engine sees that there are none, and reads no column.
    converted AS
    (
        SELECT visitor, is_single, pages, page_views, actions
        FROM visits
        WHERE (length({goal_paths:Array(String)}) = 1 AND has(pages, {goal_paths:Array(String)}[1]))
            OR (length({goal_paths:Array(String)}) > 1 AND arrayExists(each -> each IN {goal_paths:Array(String)}, pages))
            OR (notEmpty({goal_events:Array(String)}) AND hasAny(action_names, {goal_events:Array(String)}))
    )
SELECT
    'visitors' AS kind,
    '' AS name,
    countIf(is_present AND is_single) + uniqExactIf(visitor, is_present AND NOT is_single) AS visitors,
    toUInt64(0) AS number,
    CAST([], 'Array(Tuple(String, Int64))') AS money
FROM visits
UNION ALL
SELECT
    'goal_event', toString(action.name), uniqExact(visitor), count(),
    -- A map of sums leaves out what adds up to nothing.
    arrayMap(
        currency -> (
            currency,
            (sumMapIf([toString(action.currency)], [action.revenue], action.currency != '') AS sums).2[
                indexOf(sums.1, currency)
            ]
        ),
        groupUniqArrayIf(toString(action.currency), action.currency != '')
    )
FROM converted
ARRAY JOIN actions AS action
WHERE action.name IN {goal_events:Array(String)}
GROUP BY action.name
UNION ALL
SELECT
    'goal_path', toString(each), countIf(is_single) + uniqExactIf(visitor, NOT is_single), sum(views_of_page), []
FROM converted
ARRAY JOIN pages AS each, page_views AS views_of_page
WHERE each IN {goal_paths:Array(String)}
GROUP BY each

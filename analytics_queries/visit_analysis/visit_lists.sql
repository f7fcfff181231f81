-- Statements of `visit_lists.py`: the entries of lists, those with the most visitors first, and how many entries each list has.
-- `visitors` are pairs of a visit's visitor and a day, `number` page views, visits or events. Lists of all visits of days that
-- are over are stored (`list_runs`); otherwise (`is_counted`) and for open days they are counted from the visits.

-- name: visit_lists
-- Visits that started in the period, by each column of the grouping sets. The module inserts these, and the expressions for the
-- list and the entry of a group.
WITH
    stored AS
    (
        SELECT *, actions.name AS action_names
        FROM pharos.visit_days
        WHERE {is_counted:Bool} AND {has_past:Bool} AND site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date}
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
SELECT list, name, visitors, number, count() OVER (PARTITION BY list) AS total
FROM
(
    SELECT list, name, sum(part_visitors) AS visitors, sum(part_number) AS number
    FROM
    (
        SELECT toString(list) AS list, name, visitors AS part_visitors, number AS part_number
        FROM pharos.visit_day_lists
        WHERE site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date} AND run IN {list_runs:Array(UInt64)}
            AND list IN {lists:Array(String)}
        UNION ALL
        SELECT {list}, {entry}, countIf(is_single) + uniqExactIf(visitor, NOT is_single), count()
        FROM visits
        WHERE is_start
        GROUP BY GROUPING SETS ({grouping_sets})
    )
    WHERE name != '' AND (empty({search:String}) OR positionCaseInsensitiveUTF8(name, {search:String}) > 0)
    GROUP BY list, name
)
ORDER BY list, visitors DESC, name
LIMIT {limit:UInt32} BY list;

-- name: page_list
-- Page views by path.
WITH
    stored AS
    (
        SELECT *, actions.name AS action_names
        FROM pharos.visit_days
        WHERE {is_counted:Bool} AND {has_past:Bool} AND site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date}
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
SELECT name, visitors, number, count() OVER () AS total
FROM
(
    SELECT name, sum(part_visitors) AS visitors, sum(part_number) AS number
    FROM
    (
        SELECT name, visitors AS part_visitors, number AS part_number
        FROM pharos.visit_day_lists
        WHERE site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date} AND run IN {list_runs:Array(UInt64)}
            AND list = {list:String}
        UNION ALL
        SELECT toString(each), countIf(is_single) + uniqExactIf(visitor, NOT is_single), sum(views_of_page)
        FROM visits
        ARRAY JOIN pages AS each, page_views AS views_of_page
        GROUP BY each
    )
    WHERE name != '' AND (empty({search:String}) OR positionCaseInsensitiveUTF8(name, {search:String}) > 0)
    GROUP BY name
)
ORDER BY visitors DESC, name
LIMIT {limit:UInt32};

-- name: action_list
-- Events of the name `action` by their URL or path.
WITH
    stored AS
    (
        SELECT *, actions.name AS action_names
        FROM pharos.visit_days
        WHERE {is_counted:Bool} AND {has_past:Bool} AND site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date}
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
SELECT name, visitors, number, count() OVER () AS total
FROM
(
    SELECT name, sum(part_visitors) AS visitors, sum(part_number) AS number
    FROM
    (
        SELECT name, visitors AS part_visitors, number AS part_number
        FROM pharos.visit_day_lists
        WHERE site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date} AND run IN {list_runs:Array(UInt64)}
            AND list = {list:String}
        UNION ALL
        SELECT each.label, uniqExact(visitor), count()
        FROM visits
        ARRAY JOIN actions AS each
        WHERE each.name = {action:String}
        GROUP BY each.label
    )
    WHERE name != '' AND (empty({search:String}) OR positionCaseInsensitiveUTF8(name, {search:String}) > 0)
    GROUP BY name
)
ORDER BY visitors DESC, name
LIMIT {limit:UInt32};

-- Statements of `visit_lists.py`: the entries of one list, those with the most visitors first, and how many entries it has.
-- `visitors` are pairs of a visit's visitor and a day, `number` page views, visits or events. Lists of all visits of days that
-- are over are stored (`list_runs`); otherwise (`is_counted`) and for open days they are counted from the visits.

-- name: visit_list
-- Visits that started in the period, by a column.
WITH
    stored AS
    (
        SELECT *, actions.name AS action_names
        FROM pharos.visit_days
        WHERE {is_counted:Bool} AND site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date} AND run IN {runs:Array(UInt64)}
        UNION ALL
        SELECT *, actions.name AS action_names
        FROM pharos.open_visit_days
        WHERE site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date} AND run IN {runs:Array(UInt64)}
    ),
    -- Those that the conditions keep. A condition that is not given costs nothing: the engine drops what is always true.
    visits AS
    (
        SELECT *
        FROM stored
        WHERE (empty({source:Array(String)}) OR (source IN {source:Array(String)}) = {source_wanted:Bool})
            AND (
                empty({source_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(source, {source_part:Array(String)}) = {source_part_wanted:Bool}
            )
            AND (empty({campaign:Array(String)}) OR (campaign IN {campaign:Array(String)}) = {campaign_wanted:Bool})
            AND (
                empty({campaign_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(campaign, {campaign_part:Array(String)}) = {campaign_part_wanted:Bool}
            )
            AND (empty({country:Array(String)}) OR (country IN {country:Array(String)}) = {country_wanted:Bool})
            AND (
                empty({country_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(country, {country_part:Array(String)}) = {country_part_wanted:Bool}
            )
            AND (empty({device:Array(String)}) OR (device IN {device:Array(String)}) = {device_wanted:Bool})
            AND (
                empty({device_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(device, {device_part:Array(String)}) = {device_part_wanted:Bool}
            )
            AND (empty({browser:Array(String)}) OR (browser IN {browser:Array(String)}) = {browser_wanted:Bool})
            AND (
                empty({browser_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(browser, {browser_part:Array(String)}) = {browser_part_wanted:Bool}
            )
            AND (empty({os:Array(String)}) OR (os IN {os:Array(String)}) = {os_wanted:Bool})
            AND (
                empty({os_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(os, {os_part:Array(String)}) = {os_part_wanted:Bool}
            )
            AND (empty({entry_page:Array(String)}) OR (entry_page IN {entry_page:Array(String)}) = {entry_page_wanted:Bool})
            AND (
                empty({entry_page_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(entry_page, {entry_page_part:Array(String)}) = {entry_page_part_wanted:Bool}
            )
            AND (empty({exit_page:Array(String)}) OR (exit_page IN {exit_page:Array(String)}) = {exit_page_wanted:Bool})
            AND (
                empty({exit_page_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(exit_page, {exit_page_part:Array(String)}) = {exit_page_part_wanted:Bool}
            )
            AND (
                empty({page:Array(String)})
                OR (hasAny(pages, {page:Array(String)}) OR hasAny(other_pages, {page:Array(String)})) = {page_wanted:Bool}
            )
            AND (
                empty({page_part:Array(String)})
                OR arrayExists(
                    each -> multiSearchAnyCaseInsensitiveUTF8(each, {page_part:Array(String)}), arrayConcat(pages, other_pages)
                ) = {page_part_wanted:Bool}
            )
            AND (empty({event:Array(String)}) OR hasAny(action_names, {event:Array(String)}) = {event_wanted:Bool})
            AND (
                empty({event_part:Array(String)})
                OR arrayExists(each -> multiSearchAnyCaseInsensitiveUTF8(each, {event_part:Array(String)}), action_names)
                    = {event_part_wanted:Bool}
            )
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
        SELECT toString({column:Identifier}), countIf(is_single) + uniqExactIf(visitor, NOT is_single), count()
        FROM visits
        WHERE is_start
        GROUP BY {column:Identifier}
    )
    WHERE name != '' AND (empty({search:String}) OR positionCaseInsensitiveUTF8(name, {search:String}) > 0)
    GROUP BY name
)
ORDER BY visitors DESC, name
LIMIT {limit:UInt32};

-- name: page_list
-- Page views by path.
WITH
    stored AS
    (
        SELECT *, actions.name AS action_names
        FROM pharos.visit_days
        WHERE {is_counted:Bool} AND site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date} AND run IN {runs:Array(UInt64)}
        UNION ALL
        SELECT *, actions.name AS action_names
        FROM pharos.open_visit_days
        WHERE site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date} AND run IN {runs:Array(UInt64)}
    ),
    -- Those that the conditions keep. A condition that is not given costs nothing: the engine drops what is always true.
    visits AS
    (
        SELECT *
        FROM stored
        WHERE (empty({source:Array(String)}) OR (source IN {source:Array(String)}) = {source_wanted:Bool})
            AND (
                empty({source_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(source, {source_part:Array(String)}) = {source_part_wanted:Bool}
            )
            AND (empty({campaign:Array(String)}) OR (campaign IN {campaign:Array(String)}) = {campaign_wanted:Bool})
            AND (
                empty({campaign_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(campaign, {campaign_part:Array(String)}) = {campaign_part_wanted:Bool}
            )
            AND (empty({country:Array(String)}) OR (country IN {country:Array(String)}) = {country_wanted:Bool})
            AND (
                empty({country_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(country, {country_part:Array(String)}) = {country_part_wanted:Bool}
            )
            AND (empty({device:Array(String)}) OR (device IN {device:Array(String)}) = {device_wanted:Bool})
            AND (
                empty({device_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(device, {device_part:Array(String)}) = {device_part_wanted:Bool}
            )
            AND (empty({browser:Array(String)}) OR (browser IN {browser:Array(String)}) = {browser_wanted:Bool})
            AND (
                empty({browser_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(browser, {browser_part:Array(String)}) = {browser_part_wanted:Bool}
            )
            AND (empty({os:Array(String)}) OR (os IN {os:Array(String)}) = {os_wanted:Bool})
            AND (
                empty({os_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(os, {os_part:Array(String)}) = {os_part_wanted:Bool}
            )
            AND (empty({entry_page:Array(String)}) OR (entry_page IN {entry_page:Array(String)}) = {entry_page_wanted:Bool})
            AND (
                empty({entry_page_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(entry_page, {entry_page_part:Array(String)}) = {entry_page_part_wanted:Bool}
            )
            AND (empty({exit_page:Array(String)}) OR (exit_page IN {exit_page:Array(String)}) = {exit_page_wanted:Bool})
            AND (
                empty({exit_page_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(exit_page, {exit_page_part:Array(String)}) = {exit_page_part_wanted:Bool}
            )
            AND (
                empty({page:Array(String)})
                OR (hasAny(pages, {page:Array(String)}) OR hasAny(other_pages, {page:Array(String)})) = {page_wanted:Bool}
            )
            AND (
                empty({page_part:Array(String)})
                OR arrayExists(
                    each -> multiSearchAnyCaseInsensitiveUTF8(each, {page_part:Array(String)}), arrayConcat(pages, other_pages)
                ) = {page_part_wanted:Bool}
            )
            AND (empty({event:Array(String)}) OR hasAny(action_names, {event:Array(String)}) = {event_wanted:Bool})
            AND (
                empty({event_part:Array(String)})
                OR arrayExists(each -> multiSearchAnyCaseInsensitiveUTF8(each, {event_part:Array(String)}), action_names)
                    = {event_part_wanted:Bool}
            )
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
        WHERE {is_counted:Bool} AND site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date} AND run IN {runs:Array(UInt64)}
        UNION ALL
        SELECT *, actions.name AS action_names
        FROM pharos.open_visit_days
        WHERE site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date} AND run IN {runs:Array(UInt64)}
    ),
    -- Those that the conditions keep. A condition that is not given costs nothing: the engine drops what is always true.
    visits AS
    (
        SELECT *
        FROM stored
        WHERE (empty({source:Array(String)}) OR (source IN {source:Array(String)}) = {source_wanted:Bool})
            AND (
                empty({source_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(source, {source_part:Array(String)}) = {source_part_wanted:Bool}
            )
            AND (empty({campaign:Array(String)}) OR (campaign IN {campaign:Array(String)}) = {campaign_wanted:Bool})
            AND (
                empty({campaign_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(campaign, {campaign_part:Array(String)}) = {campaign_part_wanted:Bool}
            )
            AND (empty({country:Array(String)}) OR (country IN {country:Array(String)}) = {country_wanted:Bool})
            AND (
                empty({country_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(country, {country_part:Array(String)}) = {country_part_wanted:Bool}
            )
            AND (empty({device:Array(String)}) OR (device IN {device:Array(String)}) = {device_wanted:Bool})
            AND (
                empty({device_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(device, {device_part:Array(String)}) = {device_part_wanted:Bool}
            )
            AND (empty({browser:Array(String)}) OR (browser IN {browser:Array(String)}) = {browser_wanted:Bool})
            AND (
                empty({browser_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(browser, {browser_part:Array(String)}) = {browser_part_wanted:Bool}
            )
            AND (empty({os:Array(String)}) OR (os IN {os:Array(String)}) = {os_wanted:Bool})
            AND (
                empty({os_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(os, {os_part:Array(String)}) = {os_part_wanted:Bool}
            )
            AND (empty({entry_page:Array(String)}) OR (entry_page IN {entry_page:Array(String)}) = {entry_page_wanted:Bool})
            AND (
                empty({entry_page_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(entry_page, {entry_page_part:Array(String)}) = {entry_page_part_wanted:Bool}
            )
            AND (empty({exit_page:Array(String)}) OR (exit_page IN {exit_page:Array(String)}) = {exit_page_wanted:Bool})
            AND (
                empty({exit_page_part:Array(String)})
                OR multiSearchAnyCaseInsensitiveUTF8(exit_page, {exit_page_part:Array(String)}) = {exit_page_part_wanted:Bool}
            )
            AND (
                empty({page:Array(String)})
                OR (hasAny(pages, {page:Array(String)}) OR hasAny(other_pages, {page:Array(String)})) = {page_wanted:Bool}
            )
            AND (
                empty({page_part:Array(String)})
                OR arrayExists(
                    each -> multiSearchAnyCaseInsensitiveUTF8(each, {page_part:Array(String)}), arrayConcat(pages, other_pages)
                ) = {page_part_wanted:Bool}
            )
            AND (empty({event:Array(String)}) OR hasAny(action_names, {event:Array(String)}) = {event_wanted:Bool})
            AND (
                empty({event_part:Array(String)})
                OR arrayExists(each -> multiSearchAnyCaseInsensitiveUTF8(each, {event_part:Array(String)}), action_names)
                    = {event_part_wanted:Bool}
            )
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

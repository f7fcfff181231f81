-- Statements of `refresh_rollups.py`. The rows of a day are stored under a run of its own: the numbers after `run`, in the
-- order of `days`. Readers take the runs that the table `told_days` names, so unfinished or repeated runs change nothing.

-- name: insert_visits
-- What were a site's visits on each of some days that are over? A row for each visit and each of these days with an event of it.
-- `days` are calendar days of the time zone `timezone`; `own_days` the days in UTC that they lie on, `read_days` those on
-- which other events of their visits may lie (a visit lasts 24 h at most). Events from `now_ms` on are left out.
-- All events of a visit describe it, also those of other days: its source and so on come from the first one. `visitor`
-- differs from day to day; is_single: the visitor has no other visit on that day. Times in arrays are milliseconds since 1970.
INSERT INTO pharos.visit_days
(
    site_id, day, run, visit_id, visitor, is_single, present_at, is_present, is_start, started_at, duration_ms, is_bounce,
    source, campaign, device, country, browser, os, entry_page, exit_page, pages, views, page_views, page_times, other_pages,
    actions, vitals
)
SELECT
    {site_id:UInt64},
    bucket.1 AS day,
    {run:UInt64} + indexOf({days:Array(Date)}, day),
    visit_id,
    bitXor(visit_visitor, toUInt64(toUInt16(day)) * 0x9E3779B97F4A7C15) AS visitor,
    count() OVER (PARTITION BY visitor) = 1 AS is_single,
    bucket.2 AS present_at,
    toUnixTimestamp64Milli(present_at) > 0 AS is_present,
    toDate(started_at, {timezone:String}) = day AND started_at < fromUnixTimestamp64Milli({now_ms:Int64}, 'UTC') AS is_start,
    started_at,
    toUInt64(dateDiff('millisecond', started_at, ended_at)) AS duration_ms,
    visit_views = 1 AND interactions = 0 AND visible < 10000 AS is_bounce,
    toLowCardinality(visit_source) AS source,
    toLowCardinality(visit_campaign) AS campaign,
    toLowCardinality(visit_device) AS device,
    toLowCardinality(visit_country) AS country,
    toLowCardinality(visit_browser) AS browser,
    toLowCardinality(visit_os) AS os,
    toLowCardinality(visit_entry_page) AS entry_page,
    toLowCardinality(visit_exit_page) AS exit_page,
    CAST(arrayDistinct(bucket.3), 'Array(LowCardinality(String))') AS pages,
    toUInt32(length(bucket.3)) AS views,
    arrayMap(times -> toUInt32(length(times)), page_times) AS page_views,
    arrayMap(page -> arrayFilter((time, path) -> path = page, bucket.4, bucket.3), pages) AS page_times,
    CAST(arrayFilter(page -> NOT has(bucket.3, page), all_pages), 'Array(LowCardinality(String))') AS other_pages,
    CAST(
        bucket.5,
        'Array(Tuple(at Int64, name LowCardinality(String), label String, revenue Int64, currency LowCardinality(String)))'
    ) AS actions,
    CAST(
        arrayMap(
            vital -> (vital.1, vital.4),
            arrayFilter(
                (vital, next) -> (vital.1, vital.2) != (next.1, next.2),
                arraySort(bucket.6) AS sorted,
                arrayResize(arrayPopFront(sorted), length(sorted))
            )
        ),
        'Array(Tuple(metric LowCardinality(String), value Float64))'
    ) AS vitals
FROM
(
    SELECT
        visit_id,
        argMin(part_visitor, part_first) AS visit_visitor,
        argMin(part_source, part_first) AS visit_source,
        argMin(part_campaign, part_first) AS visit_campaign,
        argMin(part_device, part_first) AS visit_device,
        argMin(part_country, part_first) AS visit_country,
        argMin(part_browser, part_first) AS visit_browser,
        argMin(part_os, part_first) AS visit_os,
        min(part_began) AS started_at,
        max(part_ended) AS ended_at,
        sum(part_views) AS visit_views,
        sum(part_interactions) AS interactions,
        sum(part_visible) AS visible,
        argMinIf(part_entry_page, part_entry, part_views > 0) AS visit_entry_page,
        argMaxIf(part_exit_page, part_exit, part_views > 0) AS visit_exit_page,
        groupUniqArrayArray(part_paths) AS all_pages,
        groupArrayIf(
            (local_day, part_present_at, part_counted_paths, part_counted_times, part_actions, part_vitals),
            part_counted > 0
        ) AS buckets
    FROM
    (
        SELECT
            visit_id,
            local_day,
            min(key) AS part_first,
            min(occurred_at) AS part_began,
            max(occurred_at) AS part_ended,
            argMin(visitor, key) AS part_visitor,
            argMin(source, key) AS part_source,
            argMin(campaign, key) AS part_campaign,
            argMin(device, key) AS part_device,
            argMin(country, key) AS part_country,
            argMin(browser, key) AS part_browser,
            argMin(os, key) AS part_os,
            countIf(is_view) AS part_views,
            countIf(is_interaction) AS part_interactions,
            countIf(makes_present) AS part_present,
            sum(visible_ms) AS part_visible,
            minIf(key, is_view) AS part_entry,
            maxIf(key, is_view) AS part_exit,
            argMinIf(path, key, is_view) AS part_entry_page,
            argMaxIf(path, key, is_view) AS part_exit_page,
            groupUniqArrayIf(path, is_view) AS part_paths,
            countIf(is_counted) AS part_counted,
            minIf(occurred_at, is_counted AND makes_present) AS part_present_at,
            groupArrayIf(toString(path), is_counted AND is_view) AS part_counted_paths,
            groupArrayIf(milliseconds, is_counted AND is_view) AS part_counted_times,
            groupArrayIf(
                (milliseconds, name, if(name = '404', path, url), revenue, currency),
                is_counted AND is_event AND makes_present
            ) AS part_actions,
            groupArrayIf((metric, vital, key, value), is_counted AND metric != '') AS part_vitals
        FROM
        (
            SELECT
                *,
                toDate(occurred_at, {timezone:String}) AS local_day,
                local_day IN {days:Array(Date)} AND occurred_at < fromUnixTimestamp64Milli({now_ms:Int64}, 'UTC') AS is_counted,
                NOT is_event AS is_view,
                NOT is_event OR name NOT IN ('Web Vital', 'Engagement') AS makes_present,
                is_event AND makes_present AND name != '404' AS is_interaction,
                toUnixTimestamp64Milli(occurred_at) AS milliseconds,
                -- The order of a visit's events in one number, which is compared in a tenth of the time of a tuple.
                bitOr(bitShiftLeft(toUInt256(milliseconds), 128), toUInt256(toUInt128(id))) AS key
            FROM pharos.pageviews
            WHERE site_id = {site_id:UInt64} AND day IN {read_days:Array(Date)}
                AND visit_id IN (
                    SELECT visit_id
                    FROM pharos.pageviews
                    WHERE site_id = {site_id:UInt64} AND day IN {own_days:Array(Date)}
                        AND toDate(occurred_at, {timezone:String}) IN {days:Array(Date)}
                        AND occurred_at < fromUnixTimestamp64Milli({now_ms:Int64}, 'UTC')
                )
        )
        GROUP BY visit_id, local_day
    )
    GROUP BY visit_id
    HAVING sum(part_present) > 0
)
ARRAY JOIN buckets AS bucket
ORDER BY day;

-- name: insert_lists
-- Which pages, sources, links and so on had how many visitors on each of these days? A row for each entry of each list of a
-- day: `visitors` are those of the day, `number` page views, visits or events. `read_visits.sql` computes the same lists
-- without the day. A visitor with one visit on the day needs no comparison with the others, which spares most of the work.
INSERT INTO pharos.visit_day_lists (site_id, day, run, list, name, visitors, number)
WITH visits AS
(
    SELECT * FROM pharos.visit_days
    WHERE site_id = {site_id:UInt64} AND day IN {days:Array(Date)}
        AND run > {run:UInt64} AND run <= {run:UInt64} + length({days:Array(Date)})
)
SELECT {site_id:UInt64}, day, {run:UInt64} + indexOf({days:Array(Date)}, day), list, name, visitors, number
FROM
(
    SELECT
        day,
        transform(
            grouping(source, country, campaign, device, browser, os, entry_page, exit_page),
            [127, 191, 223, 239, 247, 251, 253, 254],
            ['sources', 'countries', 'campaigns', 'devices', 'browsers', 'operating_systems', 'entry_pages', 'exit_pages'],
            ''
        ) AS list,
        concat(source, country, campaign, device, browser, os, entry_page, exit_page) AS name,
        countIf(is_single) + uniqExactIf(visitor, NOT is_single) AS visitors,
        count() AS number
    FROM visits
    WHERE is_start
    GROUP BY GROUPING SETS
    (
        (day, source), (day, country), (day, campaign), (day, device),
        (day, browser), (day, os), (day, entry_page), (day, exit_page)
    )
    HAVING name != ''
    UNION ALL
    SELECT
        day, 'pages', toString(page), countIf(is_single) + uniqExactIf(visitor, NOT is_single), sum(views_of_page)
    FROM visits
    ARRAY JOIN pages AS page, page_views AS views_of_page
    GROUP BY day, page
    UNION ALL
    SELECT
        day,
        transform(
            action.name,
            ['Outbound Link: Click', 'File Download', '404'],
            ['outbound_links', 'file_downloads', 'missing_pages'],
            ''
        ) AS list,
        action.label AS name,
        uniqExact(visitor),
        count()
    FROM visits
    ARRAY JOIN actions AS action
    WHERE list != '' AND name != ''
    GROUP BY day, list, name
);

-- name: insert_marks
-- Record the runs of these days, with the numbers of events from which they were computed.
INSERT INTO pharos.told_days (site_id, timezone, day, run, near_events, far_events, is_open, told_at)
SELECT
    {site_id:UInt64}, {timezone:String}, rollup.1, {run:UInt64} + rollup.2, rollup.3, rollup.4, {is_open:Bool}, now64(3)
FROM
(
    SELECT
        arrayJoin(
            arrayZip(
                {days:Array(Date)}, arrayEnumerate({days:Array(Date)}), {near:Array(UInt64)}, {far:Array(UInt64)}
            )
        ) AS rollup
);

-- name: delete_superseded
-- Remove the rows of runs that `told_days` no longer names. `before` is a run, that is a time: queries that read older runs
-- have ended, except of days whose rollups were replaced since then.
DELETE FROM pharos.{table:Identifier}
WHERE run < {before:UInt64} AND run NOT IN (SELECT run FROM pharos.told_days FINAL)
    AND (site_id, day) NOT IN (SELECT site_id, day FROM pharos.told_days WHERE run >= {before:UInt64});

-- Statements of `refresh_today.py`.

-- name: insert_visits
-- What were a site's visits on the unfinished day `day`? Returns a row for each visit with an event
-- of the day before `now_ms`, like `refresh_rollups.sql` for past days. The module inserts which visits to compute:
-- `all_visits`, or `changed_visits` together with the rows of the others.
INSERT INTO pharos.open_visit_days
(
    site_id, day, run, visit_id, visitor, is_single, present_at, is_present, is_start, started_at, duration_ms, is_bounce,
    source, campaign, device, country, browser, os, entry_page, exit_page, pages, views, page_views, page_times, other_pages,
    actions, vitals, events, day_events
)
{changed}
SELECT
    {site_id:UInt64}, {day:Date}, {run:UInt64}, visit_id, day_visitor, count() OVER (PARTITION BY day_visitor) = 1,
    present_since, present, start, began, duration, bounce, first_source, first_campaign, first_device, first_country,
    first_browser, first_os, entered, left, day_pages, day_views, views_of_pages, times_of_pages, elsewhere, day_actions,
    day_vitals, visit_events, counted_events
FROM
(
    SELECT
        visit_id,
        bitXor(argMin(visitor, key), toUInt64(toUInt16({day:Date})) * 0x9E3779B97F4A7C15) AS day_visitor,
        minIf(occurred_at, is_counted AND makes_present) AS present_since,
        toUnixTimestamp64Milli(present_since) > 0 AS present,
        toDate(began, {timezone:String}) = {day:Date} AS start,
        min(occurred_at) AS began,
        toUInt64(dateDiff('millisecond', began, max(occurred_at))) AS duration,
        countIf(is_view) = 1 AND countIf(is_interaction) = 0 AND sum(visible_ms) < 10000 AS bounce,
        toLowCardinality(argMin(source, key)) AS first_source,
        toLowCardinality(argMin(campaign, key)) AS first_campaign,
        toLowCardinality(argMin(device, key)) AS first_device,
        toLowCardinality(argMin(country, key)) AS first_country,
        toLowCardinality(argMin(browser, key)) AS first_browser,
        toLowCardinality(argMin(os, key)) AS first_os,
        toLowCardinality(argMinIf(path, key, is_view)) AS entered,
        toLowCardinality(argMaxIf(path, key, is_view)) AS left,
        CAST(
            arrayDistinct(groupArrayIf(toString(path), is_counted AND is_view) AS day_paths), 'Array(LowCardinality(String))'
        ) AS day_pages,
        toUInt32(length(day_paths)) AS day_views,
        arrayMap(times -> toUInt32(length(times)), times_of_pages) AS views_of_pages,
        arrayMap(
            page -> arrayFilter(
                (time, of_page) -> of_page = page, groupArrayIf(milliseconds, is_counted AND is_view), day_paths
            ),
            day_pages
        ) AS times_of_pages,
        CAST(
            arrayFilter(page -> NOT has(day_paths, page), groupUniqArrayIf(toString(path), is_view)),
            'Array(LowCardinality(String))'
        ) AS elsewhere,
        CAST(
            groupArrayIf(
                (milliseconds, name, if(name = '404', path, url), revenue, currency),
                is_counted AND is_event AND makes_present
            ),
            'Array(Tuple(at Int64, name LowCardinality(String), label String, revenue Int64, currency LowCardinality(String)))'
        ) AS day_actions,
        CAST(
            arrayMap(
                vital -> (vital.1, vital.4),
                arrayFilter(
                    (vital, next) -> (vital.1, vital.2) != (next.1, next.2),
                    arraySort(groupArrayIf((metric, vital, key, value), is_counted AND metric != '')) AS sorted,
                    arrayResize(arrayPopFront(sorted), length(sorted))
                )
            ),
            'Array(Tuple(metric LowCardinality(String), value Float64))'
        ) AS day_vitals,
        count() AS visit_events,
        countIf(is_counted) AS counted_events
    FROM
    (
        SELECT
            visit_id, visitor, source, campaign, device, country, browser, os, path, url, name, is_event, occurred_at,
            visible_ms, metric, vital, value, revenue, currency,
            toDate(occurred_at, {timezone:String}) = {day:Date}
                AND occurred_at < fromUnixTimestamp64Milli({now_ms:Int64}, 'UTC') AS is_counted,
            NOT is_event AS is_view,
            NOT is_event OR name NOT IN ('Web Vital', 'Engagement') AS makes_present,
            is_event AND makes_present AND name != '404' AS is_interaction,
            toUnixTimestamp64Milli(occurred_at) AS milliseconds,
            -- The order of a visit's events in one number, which is compared in a tenth of the time of a tuple.
            bitOr(bitShiftLeft(toUInt256(milliseconds), 128), toUInt256(toUInt128(id))) AS key
        FROM pharos.pageviews
        WHERE site_id = {site_id:UInt64} AND day IN {read_days:Array(Date)} AND visit_id IN ({chosen})
    )
    GROUP BY visit_id
    HAVING countIf(makes_present) > 0 AND counted_events > 0
    {unchanged}
);

-- name: all_visits
-- Visits with an event that counts on the day.
SELECT visit_id
FROM pharos.pageviews
WHERE site_id = {site_id:UInt64} AND day IN {own_days:Array(Date)} AND toDate(occurred_at, {timezone:String}) = {day:Date}
    AND occurred_at < fromUnixTimestamp64Milli({now_ms:Int64}, 'UTC');

-- name: changed
-- Which visits have other numbers of events than their rows of the run `previous`, or no row? Rows of
-- `pageviews` are only ever added, and count from a certain time on, so equal numbers mean the same events. Visits
-- without presence have no row. The module inserts `all_visits` as `own_visits`: other visits of the days around have
-- no row that could be stale.
WITH changed AS MATERIALIZED
(
    SELECT visit_id
    FROM
    (
        SELECT
            visit_id,
            1 AS all_events,
            toInt64(
                toDate(occurred_at, {timezone:String}) = {day:Date}
                AND occurred_at < fromUnixTimestamp64Milli({now_ms:Int64}, 'UTC')
            ) AS own_events,
            NOT is_event OR name NOT IN ('Web Vital', 'Engagement') AS makes_present,
            false AS is_row
        FROM pharos.pageviews
        WHERE site_id = {site_id:UInt64} AND day IN {read_days:Array(Date)} AND visit_id IN ({own_visits})
        UNION ALL
        SELECT visit_id, -toInt64(events), -toInt64(day_events), false, true
        FROM pharos.open_visit_days
        WHERE site_id = {site_id:UInt64} AND day = {day:Date} AND run = {previous:UInt64}
    )
    GROUP BY visit_id
    HAVING (sum(all_events) != 0 OR sum(own_events) != 0)
        AND (max(is_row) OR (max(own_events) > 0 AND max(makes_present)))
);

-- name: changed_visits
SELECT visit_id FROM changed;

-- name: unchanged_visits
    UNION ALL
    SELECT
        visit_id, visitor, present_at, is_present, is_start, started_at, duration_ms, is_bounce, source, campaign, device, country,
        browser, os, entry_page, exit_page, pages, views, page_views, page_times, other_pages, actions, vitals, events, day_events
    FROM pharos.open_visit_days
    WHERE site_id = {site_id:UInt64} AND day = {day:Date} AND run = {previous:UInt64}
        AND visit_id NOT IN (SELECT visit_id FROM changed);

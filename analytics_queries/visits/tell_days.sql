-- What were the visits of these days, and what do their lists add up to? Kept under the numbers after `run`, one a day; then
-- the numbers are written down, and from then on count.
INSERT INTO pharos.{{table}}
(
    site_id, day, run, visit_id, visitor, is_single, present_at, is_present, is_start, started_at, duration_ms, is_bounce,
    source, campaign, device, country, browser, os, entry_page, exit_page, views, pages, page_views, page_times, other_pages,
    actions, vitals
)
SELECT
    {site_id:UInt64}, day, {run:UInt64} + indexOf({days:Array(Date)}, day), visit_id, visitor, is_single, present_at,
    is_present, is_start, started_at, duration_ms, is_bounce, source, campaign, device, country, browser, os, entry_page,
    exit_page, views, pages, page_views, page_times, other_pages, actions, vitals
FROM ({{visit_days}})
ORDER BY day;
INSERT INTO pharos.visit_day_lists (site_id, day, run, list, name, visitors, number)
SELECT {site_id:UInt64}, day, {run:UInt64} + indexOf({days:Array(Date)}, day), list, name, visitors, number
FROM ({{lists}});
INSERT INTO pharos.told_days (site_id, timezone, day, run, near_events, far_events, is_open, told_at)
SELECT
    {site_id:UInt64}, {timezone:String}, told.1, {run:UInt64} + told.2, told.3, told.4, {is_open:Bool}, now64(3)
FROM
(
    SELECT
        arrayJoin(
            arrayZip(
                {days:Array(Date)}, arrayEnumerate({days:Array(Date)}), {near:Array(UInt64)}, {far:Array(UInt64)}
            )
        ) AS told
);

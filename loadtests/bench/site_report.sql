-- Page views of one day of a shop: `first` and on are numbers of views, `views` of them in all. About 2.75 views a visit, 1.17
-- visits a visitor; the visits are spread over `sites` sites from `site` on; paths, sources and the rest are spread as sites
-- have them, a few names for most and a long tail.
INSERT INTO pharos.pageviews
(
    site_id, day, visit_id, occurred_at, received_at, id, is_event, name, path, visit_began, visitor, visit_key,
    source, campaign, device, browser, os, country, visible_ms, metric, value, vital, log, log_offset
)
SELECT
    {site:UInt64} + cityHash64(visit, 'site') % {sites:UInt64}, toDate(at), visit, at, at, reinterpretAsUUID(sipHash128(number)), is_event,
    multiIf(is_vital, 'Web Vital', is_event, 'Engagement', '') AS name,
    concat(['/', '/products/', '/blog/', '/docs/'][1 + least(3, bitShiftRight(cityHash64(number, 'p'), 3) % 5)],
        if(cityHash64(number, 'p') % 5 = 0, '', toString(toUInt32(pow(400, (cityHash64(number, 'q') % 10000) / 10000))))) AS path,
    began, visitor, visitor,
    transform(cityHash64(visit, 's') % 100,
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], ['Bing', 'DuckDuckGo', 'Facebook', 'X', 'Reddit', 'ChatGPT', 'newsletter', 'Hacker News',
        'LinkedIn', 'blog.example'], if(cityHash64(visit, 's') % 100 < 55, 'Direct / None', 'Google')) AS source,
    if(cityHash64(visit, 'c') % 12 = 0, concat('campaign-', toString(cityHash64(visit, 'd') % 9)), '') AS campaign,
    transform(cityHash64(visitor, 'v') % 20, [0, 1, 2, 3, 4, 5, 6, 7], arrayWithConstant(8, 'Mobile'),
        if(cityHash64(visitor, 'v') % 20 = 8, 'Tablet', 'Desktop')) AS device,
    ['Chrome', 'Chrome', 'Chrome', 'Safari', 'Safari', 'Edge', 'Firefox', 'Samsung Internet'][1 + cityHash64(visitor, 'b') % 8],
    ['Windows', 'Windows', 'macOS', 'iOS', 'iOS', 'Android', 'Android', 'Linux'][1 + cityHash64(visitor, 'o') % 8],
    ['NO', 'NO', 'NO', 'SE', 'DK', 'DE', 'GB', 'US', 'FR', 'NL', 'FI', 'PL'][1 + cityHash64(visitor, 'l') % 12],
    if(name = 'Engagement', cityHash64(number, 'e') % 60000, 0),
    if(is_vital, ['LCP', 'INP', 'CLS', 'FCP', 'TTFB'][1 + number % 5], '') AS metric,
    if(metric = 'CLS', (cityHash64(number, 'w') % 300) / 1000, (cityHash64(number, 'w') % 4000) + 1),
    if(is_vital, number, 0),
    'bench', number
FROM
(
    SELECT
        number,
        number - {first:UInt64} AS nth,
        nth >= {views:UInt64} AS is_event,
        is_event AND nth % 5 = 0 AS is_vital,
        intDiv((nth % {views:UInt64}) * 4, 11) AS visit_n,
        cityHash64({first:UInt64}, visit_n) AS visit,
        cityHash64({first:UInt64}, intDiv(visit_n * 6, 7), 'u') AS visitor,
        {day:DateTime64(3, 'UTC')} + INTERVAL (cityHash64(visit) % 86000) SECOND AS began,
        began + INTERVAL (cityHash64(number) % 300000) MILLISECOND AS at
    -- A third more: events, most of them of visible time.
    FROM numbers({first:UInt64}, intDiv({views:UInt64} * 4, 3))
)

-- The IDs of the last 4 days of the page views with numbers from `first` on, as the consumer stores them for its look-up.
INSERT INTO pharos.pageview_ids (id, site_id, received_at, log, log_offset)
SELECT id, site_id, received_at, log, log_offset
FROM pharos.pageviews
WHERE day > today() - 4 AND log = 'bench' AND log_offset >= {first:UInt64}

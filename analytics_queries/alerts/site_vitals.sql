-- What is the 75th percentile of the Web Vitals of sites in the day before `end_us`, and of how many measurements? A measurement
-- may report several values: its last one counts. Of busy sites only every n-th visit is read: `shares`.
SELECT site_id, vital_name, quantile(0.75)(last_value) AS p75, count() AS measurements
FROM
(
    SELECT site_id, toString(metric) AS vital_name, argMax(value, occurred_at) AS last_value
    FROM pharos.pageviews
    WHERE site_id IN {sites:Array(UInt64)} AND metric IN {vitals:Array(String)}
        AND visit_id % transform(site_id, {sites:Array(UInt64)}, {shares:Array(UInt64)}, toUInt64(1)) = 0
        AND day >= toDate(fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC'))
        AND occurred_at >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')
        AND occurred_at < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
        AND received_at >= fromUnixTimestamp64Micro({received_us:Int64}, 'UTC')
    GROUP BY site_id, metric, visit_id, vital
)
GROUP BY site_id, vital_name
HAVING measurements >= {least:UInt32}

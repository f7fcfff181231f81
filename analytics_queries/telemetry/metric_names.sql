-- Which metrics were reported in a time range, in the order of their names and tables? Names are read from the projections
-- `names_by_day` and `metric_names_by_day`, whose expressions must stay the same as here: a metric counts if the points of one of
-- its days are in the range, or on both sides of it.
SELECT
    name, table_name, max(last_ns) AS last_seen_ns, argMax(substringUTF8(unit, 1, {longest_name:UInt32}), last_ns) AS newest_unit,
    argMax(substringUTF8(description, 1, {longest_text:UInt32}), last_ns) AS newest_description, argMax(temporality, last_ns) AS newest_temporality,
    argMax(is_monotonic, last_ns) AS newest_is_monotonic, arraySort(groupUniqArray(20)(substringUTF8(service, 1, {longest_name:UInt32}))) AS services
FROM
(
    SELECT
        'gauge' AS table_name, toString(MetricName) AS name, toString(ServiceName) AS service,
        toUnixTimestamp64Nano(min(TimeUnix)) AS first_ns, toUnixTimestamp64Nano(max(TimeUnix)) AS last_ns,
        anyLast(MetricUnit) AS unit, anyLast(MetricDescription) AS description,
        toInt32(0) AS temporality, false::Bool AS is_monotonic
    FROM pharos.otel_metrics_gauge
    WHERE EnvironmentId = {environment:String}
        AND toDate(TimeUnix) >= toDate(fromUnixTimestamp64Nano({begin_ns:Int64}, 'UTC'))
        AND toDate(TimeUnix) <= toDate(fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC'))
        AND ({name:String} = '' OR MetricName = {name:String})
        AND ({service:String} = '' OR ServiceName = {service:String})
    GROUP BY MetricName, ServiceName, toDate(TimeUnix)
    UNION ALL
    SELECT
        'sum' AS table_name, toString(MetricName) AS name, toString(ServiceName) AS service,
        toUnixTimestamp64Nano(min(TimeUnix)) AS first_ns, toUnixTimestamp64Nano(max(TimeUnix)) AS last_ns,
        anyLast(MetricUnit) AS unit, anyLast(MetricDescription) AS description,
        toInt32(anyLast(AggregationTemporality)) AS temporality, anyLast(IsMonotonic)::Bool AS is_monotonic
    FROM pharos.otel_metrics_sum
    WHERE EnvironmentId = {environment:String}
        AND toDate(TimeUnix) >= toDate(fromUnixTimestamp64Nano({begin_ns:Int64}, 'UTC'))
        AND toDate(TimeUnix) <= toDate(fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC'))
        AND ({name:String} = '' OR MetricName = {name:String})
        AND ({service:String} = '' OR ServiceName = {service:String})
    GROUP BY MetricName, ServiceName, toDate(TimeUnix)
    UNION ALL
    SELECT
        'histogram' AS table_name, toString(MetricName) AS name, toString(ServiceName) AS service,
        toUnixTimestamp64Nano(min(TimeUnix)) AS first_ns, toUnixTimestamp64Nano(max(TimeUnix)) AS last_ns,
        anyLast(MetricUnit) AS unit, anyLast(MetricDescription) AS description,
        toInt32(anyLast(AggregationTemporality)) AS temporality, true::Bool AS is_monotonic
    FROM pharos.otel_metrics_histogram
    WHERE EnvironmentId = {environment:String}
        AND toDate(TimeUnix) >= toDate(fromUnixTimestamp64Nano({begin_ns:Int64}, 'UTC'))
        AND toDate(TimeUnix) <= toDate(fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC'))
        AND ({name:String} = '' OR MetricName = {name:String})
        AND ({service:String} = '' OR ServiceName = {service:String})
    GROUP BY MetricName, ServiceName, toDate(TimeUnix)
    UNION ALL
    SELECT
        'exponential_histogram' AS table_name, toString(MetricName) AS name, toString(ServiceName) AS service,
        toUnixTimestamp64Nano(min(TimeUnix)) AS first_ns, toUnixTimestamp64Nano(max(TimeUnix)) AS last_ns,
        anyLast(MetricUnit) AS unit, anyLast(MetricDescription) AS description,
        toInt32(anyLast(AggregationTemporality)) AS temporality, true::Bool AS is_monotonic
    FROM pharos.otel_metrics_exponential_histogram
    WHERE EnvironmentId = {environment:String}
        AND toDate(TimeUnix) >= toDate(fromUnixTimestamp64Nano({begin_ns:Int64}, 'UTC'))
        AND toDate(TimeUnix) <= toDate(fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC'))
        AND ({name:String} = '' OR MetricName = {name:String})
        AND ({service:String} = '' OR ServiceName = {service:String})
    GROUP BY MetricName, ServiceName, toDate(TimeUnix)
    UNION ALL
    SELECT
        'summary' AS table_name, toString(MetricName) AS name, toString(ServiceName) AS service,
        toUnixTimestamp64Nano(min(TimeUnix)) AS first_ns, toUnixTimestamp64Nano(max(TimeUnix)) AS last_ns,
        anyLast(MetricUnit) AS unit, anyLast(MetricDescription) AS description,
        toInt32(2) AS temporality, true::Bool AS is_monotonic
    FROM pharos.otel_metrics_summary
    WHERE EnvironmentId = {environment:String}
        AND toDate(TimeUnix) >= toDate(fromUnixTimestamp64Nano({begin_ns:Int64}, 'UTC'))
        AND toDate(TimeUnix) <= toDate(fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC'))
        AND ({name:String} = '' OR MetricName = {name:String})
        AND ({service:String} = '' OR ServiceName = {service:String})
    GROUP BY MetricName, ServiceName, toDate(TimeUnix)
    UNION ALL
    SELECT
        'event' AS table_name, if(type = 'metric', telemetry_events.name, '') AS name, toString(telemetry_events.service) AS service,
        toUnixTimestamp64Micro(min(timestamp)) * 1000 AS first_ns, toUnixTimestamp64Micro(max(timestamp)) * 1000 AS last_ns,
        anyLast(if(type = 'metric', JSONExtractString(payload, 'unit'), '')) AS unit, '' AS description,
        toInt32(0) AS temporality, false AS is_monotonic
    FROM pharos.telemetry_events
    WHERE environment_id = {environment:String} AND type = 'metric'
        AND toDate(timestamp) >= toDate(fromUnixTimestamp64Nano({begin_ns:Int64}, 'UTC'))
        AND toDate(timestamp) <= toDate(fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC'))
        AND ({name:String} = '' OR if(type = 'metric', telemetry_events.name, '') = {name:String})
        AND ({service:String} = '' OR telemetry_events.service = {service:String})
    GROUP BY if(type = 'metric', telemetry_events.name, ''), telemetry_events.service, toDate(timestamp)
)
WHERE first_ns < {end_ns:Int64} AND last_ns >= {begin_ns:Int64}
    AND ({search:String} = '' OR positionCaseInsensitive(name, {search:String}) > 0)
    AND length(name) <= {longest_metric_name:UInt32} AND name != ''
GROUP BY name, table_name
HAVING (name, table_name) > ({after_name:String}, {after_table:String})
ORDER BY name, table_name
LIMIT {limit:UInt32}

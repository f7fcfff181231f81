-- How many requests of each service were there in a time range, how many failed, and how long did they take? Requests are
-- telemetry events of the types request and job, and spans of the kinds Server and Consumer. Whole hours, from `hours_begin_s`
-- up to `hours_end_s`, are read from the projections `latency_by_hour`; their expressions must stay the same as there.
SELECT
    service,
    sum(part_requests) AS requests,
    sum(part_errors) AS errors,
    sumMap([bucket], [part_requests]) AS durations
FROM
(
    SELECT
        toString(service) AS service,
        if(isNull(duration_ms), toInt16(-1000), toInt16(ceil(8 * log2(least(greatest(ifNull(duration_ms, 0), 0.001), 1e9))))) AS bucket,
        count() AS part_requests,
        countIf(ifNull(status_code, 0) >= 500 OR severity IN ('error', 'critical')) AS part_errors
    FROM pharos.telemetry_events
    WHERE environment_id = {environment:String} AND type IN ('request', 'job')
        AND toStartOfHour(timestamp) >= toDateTime({hours_begin_s:UInt32}, 'UTC')
        AND toStartOfHour(timestamp) < toDateTime({hours_end_s:UInt32}, 'UTC')
    GROUP BY service, bucket
    UNION ALL
    SELECT
        toString(service) AS service,
        if(isNull(duration_ms), toInt16(-1000), toInt16(ceil(8 * log2(least(greatest(ifNull(duration_ms, 0), 0.001), 1e9))))) AS bucket,
        count() AS part_requests,
        countIf(ifNull(status_code, 0) >= 500 OR severity IN ('error', 'critical')) AS part_errors
    FROM pharos.telemetry_events
    WHERE environment_id = {environment:String} AND type IN ('request', 'job')
        AND toDate(timestamp) IN {edge_days:Array(Date)}
        AND timestamp >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')
        AND timestamp < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
        AND (timestamp < toDateTime64({hours_begin_s:UInt32}, 6, 'UTC') OR timestamp >= toDateTime64({hours_end_s:UInt32}, 6, 'UTC'))
    GROUP BY service, bucket
    UNION ALL
    SELECT
        toString(ServiceName) AS service,
        toInt16(ceil(8 * log2(least(greatest(Duration / 1e6, 0.001), 1e9)))) AS bucket,
        count() AS part_requests,
        countIf(StatusCode = 'Error') AS part_errors
    FROM pharos.otel_traces
    WHERE EnvironmentId = {environment:String} AND SpanKind IN ('Server', 'Consumer')
        AND toStartOfHour(Timestamp) >= toDateTime({hours_begin_s:UInt32}, 'UTC')
        AND toStartOfHour(Timestamp) < toDateTime({hours_end_s:UInt32}, 'UTC')
    GROUP BY service, bucket
    UNION ALL
    SELECT
        toString(ServiceName) AS service,
        toInt16(ceil(8 * log2(least(greatest(Duration / 1e6, 0.001), 1e9)))) AS bucket,
        count() AS part_requests,
        countIf(StatusCode = 'Error') AS part_errors
    FROM pharos.otel_traces
    WHERE EnvironmentId = {environment:String} AND SpanKind IN ('Server', 'Consumer')
        AND toDate(Timestamp) IN {edge_days:Array(Date)}
        AND Timestamp >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')
        AND Timestamp < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
        AND (Timestamp < toDateTime64({hours_begin_s:UInt32}, 9, 'UTC') OR Timestamp >= toDateTime64({hours_end_s:UInt32}, 9, 'UTC'))
    GROUP BY service, bucket
)
WHERE length(service) <= 255 AND (NOT {has_after:Bool} OR service > {after:String})
GROUP BY service
ORDER BY service
LIMIT {limit:UInt32}

-- How many requests of some services were there in the last minutes before `end_us`, how many failed, and how long did
-- they take? `windows` has a row for each pair of an environment and a service, with its minutes. Requests, errors and
-- buckets are defined as in `telemetry/services.sql`. Tables are partitioned by the time of receipt, so a condition on
-- it excludes parts without reading them: no request is received before it happens, apart from the difference of
-- clocks.
SELECT environment, service, window, sum(part_requests) AS requests, sum(part_errors) AS errors, sumMap([bucket], [part_requests]) AS durations
FROM
(
    SELECT
        toString(environment_id) AS environment,
        toString(service) AS service,
        intDiv({end_us:Int64} - 1 - toUnixTimestamp64Micro(timestamp), 60000000) AS minute,
        if(isNull(duration_ms), toInt16(-1000), toInt16(ceil(8 * log2(least(greatest(ifNull(duration_ms, 0), 0.001), 1e9))))) AS bucket,
        count() AS part_requests,
        countIf(ifNull(status_code, 0) >= 500 OR severity IN ('error', 'critical')) AS part_errors
    FROM pharos.telemetry_events
    WHERE environment_id IN {environments:Array(String)} AND type IN ('request', 'job') AND service IN {services:Array(String)}
        AND (toString(environment_id), toString(service)) IN (SELECT arrayJoin(arrayZip({environments:Array(String)}, {services:Array(String)})))
        AND toDate(timestamp) >= toDate(fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC'))
        AND toDate(timestamp) <= toDate(fromUnixTimestamp64Micro({end_us:Int64}, 'UTC'))
        AND timestamp >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')
        AND timestamp < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
        AND received_at >= fromUnixTimestamp64Micro({received_us:Int64}, 'UTC')
    GROUP BY environment, service, minute, bucket
    UNION ALL
    SELECT
        toString(EnvironmentId) AS environment,
        toString(ServiceName) AS service,
        intDiv({end_us:Int64} - 1 - toUnixTimestamp64Micro(Timestamp), 60000000) AS minute,
        toInt16(ceil(8 * log2(least(greatest(Duration / 1e6, 0.001), 1e9)))) AS bucket,
        count() AS part_requests,
        countIf(StatusCode = 'Error') AS part_errors
    FROM pharos.otel_traces
    WHERE EnvironmentId IN {environments:Array(String)} AND SpanKind IN ('Server', 'Consumer') AND ServiceName IN {services:Array(String)}
        AND (toString(EnvironmentId), toString(ServiceName)) IN (SELECT arrayJoin(arrayZip({environments:Array(String)}, {services:Array(String)})))
        AND toDate(Timestamp) >= toDate(fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC'))
        AND toDate(Timestamp) <= toDate(fromUnixTimestamp64Micro({end_us:Int64}, 'UTC'))
        AND toDateTime(Timestamp) >= toDateTime(fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC'))
        AND Timestamp >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')
        AND Timestamp < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
        AND ReceivedAt >= fromUnixTimestamp64Micro({received_us:Int64}, 'UTC')
    GROUP BY environment, service, minute, bucket
) AS figures
INNER JOIN
(
    SELECT asked.1 AS environment, asked.2 AS service, asked.3 AS window
    FROM (SELECT arrayJoin(arrayZip({environments:Array(String)}, {services:Array(String)}, {windows:Array(UInt16)})) AS asked)
) AS thresholds
USING (environment, service)
WHERE minute < window
GROUP BY environment, service, window

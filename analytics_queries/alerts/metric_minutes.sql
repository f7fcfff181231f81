-- What were the values of some metrics in each minute before `end_us`? Minute 0 is the last one. Points of gauges and
-- sums, and telemetry events of the type metric. Points that are not numbers, or have the flag for no recorded value
-- (bit 1), do not count. With `is_counter`, the values are the increases of the series. A cumulative point has
-- increased by the difference from the previous point, which may be before `begin_us`, or by its whole value if the
-- series was reset or began after `first_us`. All services that are not named count as one with an empty name, because
-- an account may have any number of services.
SELECT
    environment, metric, if((environment, metric, service) IN (
        SELECT arrayJoin(arrayZip({environments:Array(String)}, {metrics:Array(String)}, {services:Array(String)}))
    ), service, '') AS named_service, minute,
    is_counter, count() AS points, sum(measured) AS total, min(measured) AS least, max(measured) AS largest, argMax(measured, at_us) AS last, max(at_us) AS last_us
FROM
(
    SELECT
        toString(EnvironmentId) AS environment, toString(MetricName) AS metric, toString(ServiceName) AS service,
        toUnixTimestamp64Micro(TimeUnix) AS at_us, Value AS measured, false AS is_counter
    FROM pharos.otel_metrics_gauge
    WHERE EnvironmentId IN {environments:Array(String)} AND MetricName IN {metrics:Array(String)}
        AND (toString(EnvironmentId), toString(MetricName)) IN (SELECT arrayJoin(arrayZip({environments:Array(String)}, {metrics:Array(String)})))
        AND toDate(TimeUnix) >= toDate(fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC'))
        AND toDate(TimeUnix) <= toDate(fromUnixTimestamp64Micro({end_us:Int64}, 'UTC'))
        AND TimeUnix >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')
        AND TimeUnix < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
        AND ReceivedAt >= fromUnixTimestamp64Micro({received_us:Int64}, 'UTC')
        AND isFinite(Value) AND bitAnd(Flags, 1) = 0
    UNION ALL
    SELECT
        toString(environment_id), toString(name), toString(service),
        toUnixTimestamp64Micro(timestamp), JSONExtractFloat(payload, 'value'), false
    FROM pharos.telemetry_events
    WHERE environment_id IN {environments:Array(String)} AND type = 'metric' AND name IN {metrics:Array(String)}
        AND (toString(environment_id), toString(name)) IN (SELECT arrayJoin(arrayZip({environments:Array(String)}, {metrics:Array(String)})))
        AND toDate(timestamp) >= toDate(fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC'))
        AND toDate(timestamp) <= toDate(fromUnixTimestamp64Micro({end_us:Int64}, 'UTC'))
        AND timestamp >= fromUnixTimestamp64Micro({begin_us:Int64}, 'UTC')
        AND timestamp < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
        AND received_at >= fromUnixTimestamp64Micro({received_us:Int64}, 'UTC')
        AND JSONType(payload, 'value') IN ('Int64', 'UInt64', 'Double')
    UNION ALL
    SELECT
        environment, metric, service, at_us,
        multiIf(
            NOT is_counter OR is_delta, value,
            at_before = 0, if(start_us >= {first_us:Int64}, value, 0.),
            start_us != start_before OR value < value_before, value,
            value - value_before
        ),
        is_counter
    FROM
    (
        SELECT
            environment, metric, service, at_us, start_us, value, is_counter, is_delta,
            lagInFrame(at_us, 1, 0) OVER of_series AS at_before,
            lagInFrame(start_us) OVER of_series AS start_before,
            lagInFrame(value) OVER of_series AS value_before
        FROM
        (
            SELECT
                toString(EnvironmentId) AS environment, toString(MetricName) AS metric, toString(ServiceName) AS service, Series,
                toUnixTimestamp64Micro(TimeUnix) AS at_us, toUnixTimestamp64Micro(StartTimeUnix) AS start_us, Value AS value,
                AggregationTemporality = 1 AS is_delta, is_delta OR IsMonotonic AS is_counter
            FROM pharos.otel_metrics_sum
            WHERE EnvironmentId IN {environments:Array(String)} AND MetricName IN {metrics:Array(String)}
                AND (toString(EnvironmentId), toString(MetricName)) IN (SELECT arrayJoin(arrayZip({environments:Array(String)}, {metrics:Array(String)})))
                AND toDate(TimeUnix) >= toDate(fromUnixTimestamp64Micro({first_us:Int64}, 'UTC'))
                AND toDate(TimeUnix) <= toDate(fromUnixTimestamp64Micro({end_us:Int64}, 'UTC'))
                AND TimeUnix >= fromUnixTimestamp64Micro({first_us:Int64}, 'UTC')
                AND TimeUnix < fromUnixTimestamp64Micro({end_us:Int64}, 'UTC')
                AND ReceivedAt >= fromUnixTimestamp64Micro({first_us:Int64}, 'UTC')
                AND isFinite(Value) AND bitAnd(Flags, 1) = 0
        )
        WINDOW of_series AS (PARTITION BY environment, metric, Series ORDER BY at_us, value ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
    )
    WHERE at_us >= {begin_us:Int64}
)
WHERE isFinite(measured)
GROUP BY environment, metric, named_service, intDiv({end_us:Int64} - 1 - at_us, 60000000) AS minute, is_counter

-- Statements of `metric_series.py`, which combines them: a query over the grouped points of a source. Points that are
-- not numbers, or have the flag for no recorded value (bit 1), do not count. Steps are multiples of `step_ms` since
-- 1970, so that all reads have the same steps.

-- name: number_points
-- The data points of a gauge or a sum.
SELECT
    toString(ServiceName) AS service_name,
    if(mapContains(Attributes, {group_by:String}), Attributes[{group_by:String}], ResourceAttributes[{group_by:String}])
        AS attribute_value,
    Series AS series, toUnixTimestamp64Nano(TimeUnix) AS at_ns, toUnixTimestamp64Nano(StartTimeUnix) AS start_ns,
    Value AS measured, 0. AS other
FROM pharos.{table:Identifier}
WHERE EnvironmentId = {environment:String} AND MetricName = {name:String}
    AND toDate(TimeUnix) >= toDate(fromUnixTimestamp64Nano({first_ns:Int64}, 'UTC'))
    AND toDate(TimeUnix) <= toDate(fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC'))
    AND TimeUnix >= fromUnixTimestamp64Nano({first_ns:Int64}, 'UTC')
    AND TimeUnix < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    AND ({service:String} = '' OR ServiceName = {service:String})
    AND ({attribute:String} = '' OR Attributes[{attribute:String}] = {value:String}
        OR ResourceAttributes[{attribute:String}] = {value:String})
    AND isFinite(Value) AND bitAnd(Flags, 1) = 0;

-- name: total_points
-- The counts and sums of a histogram or a summary.
SELECT
    toString(ServiceName) AS service_name,
    if(mapContains(Attributes, {group_by:String}), Attributes[{group_by:String}], ResourceAttributes[{group_by:String}])
        AS attribute_value,
    Series AS series, toUnixTimestamp64Nano(TimeUnix) AS at_ns, toUnixTimestamp64Nano(StartTimeUnix) AS start_ns,
    toFloat64(Count) AS measured, if(isFinite(Sum), Sum, 0.) AS other
FROM pharos.{table:Identifier}
WHERE EnvironmentId = {environment:String} AND MetricName = {name:String}
    AND toDate(TimeUnix) >= toDate(fromUnixTimestamp64Nano({first_ns:Int64}, 'UTC'))
    AND toDate(TimeUnix) <= toDate(fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC'))
    AND TimeUnix >= fromUnixTimestamp64Nano({first_ns:Int64}, 'UTC')
    AND TimeUnix < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    AND ({service:String} = '' OR ServiceName = {service:String})
    AND ({attribute:String} = '' OR Attributes[{attribute:String}] = {value:String}
        OR ResourceAttributes[{attribute:String}] = {value:String})
    AND bitAnd(Flags, 1) = 0;

-- name: bucket_points
-- The buckets of a histogram. A bucket is named by its upper bound.
SELECT
    toString(ServiceName) AS service_name,
    if(mapContains(Attributes, {group_by:String}), Attributes[{group_by:String}], ResourceAttributes[{group_by:String}])
        AS attribute_value,
    Series AS series, toUnixTimestamp64Nano(TimeUnix) AS at_ns, toUnixTimestamp64Nano(StartTimeUnix) AS start_ns,
    toFloat64(Count) AS measured,
    arrayResize(arrayConcat(ExplicitBounds, [inf]), length(BucketCounts), inf) AS bounds,
    arrayMap(number -> toInt64(number), BucketCounts) AS counts
FROM pharos.{table:Identifier}
WHERE EnvironmentId = {environment:String} AND MetricName = {name:String}
    AND toDate(TimeUnix) >= toDate(fromUnixTimestamp64Nano({first_ns:Int64}, 'UTC'))
    AND toDate(TimeUnix) <= toDate(fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC'))
    AND TimeUnix >= fromUnixTimestamp64Nano({first_ns:Int64}, 'UTC')
    AND TimeUnix < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    AND ({service:String} = '' OR ServiceName = {service:String})
    AND ({attribute:String} = '' OR Attributes[{attribute:String}] = {value:String}
        OR ResourceAttributes[{attribute:String}] = {value:String})
    AND bitAnd(Flags, 1) = 0;

-- name: exponential_bucket_points
-- The same of an exponential histogram, whose bucket i of scale s ends at 2^((i + 1) / 2^s).
SELECT
    toString(ServiceName) AS service_name,
    if(mapContains(Attributes, {group_by:String}), Attributes[{group_by:String}], ResourceAttributes[{group_by:String}])
        AS attribute_value,
    Series AS series, toUnixTimestamp64Nano(TimeUnix) AS at_ns, toUnixTimestamp64Nano(StartTimeUnix) AS start_ns,
    toFloat64(Count) AS measured,
    arrayConcat(
        arrayMap(place -> -exp2((NegativeOffset + place - 1) / exp2(Scale)), arrayEnumerate(NegativeBucketCounts)),
        [ZeroThreshold],
        arrayMap(place -> exp2((PositiveOffset + place) / exp2(Scale)), arrayEnumerate(PositiveBucketCounts))
    ) AS bounds,
    arrayMap(number -> toInt64(number), arrayConcat(NegativeBucketCounts, [ZeroCount], PositiveBucketCounts)) AS counts
FROM pharos.{table:Identifier}
WHERE EnvironmentId = {environment:String} AND MetricName = {name:String}
    AND toDate(TimeUnix) >= toDate(fromUnixTimestamp64Nano({first_ns:Int64}, 'UTC'))
    AND toDate(TimeUnix) <= toDate(fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC'))
    AND TimeUnix >= fromUnixTimestamp64Nano({first_ns:Int64}, 'UTC')
    AND TimeUnix < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    AND ({service:String} = '' OR ServiceName = {service:String})
    AND ({attribute:String} = '' OR Attributes[{attribute:String}] = {value:String}
        OR ResourceAttributes[{attribute:String}] = {value:String})
    AND bitAnd(Flags, 1) = 0;

-- name: event_points
-- The values of telemetry events of the type metric: the member `value` of their payload. Each
-- service is a series.
SELECT
    toString(service) AS service_name,
    if(JSONType(attributes, {group_by:String}) = 'String', JSONExtractString(attributes, {group_by:String}),
        JSONExtractRaw(attributes, {group_by:String})) AS attribute_value,
    cityHash64(service) AS series, toUnixTimestamp64Micro(timestamp) * 1000 AS at_ns, 0 AS start_ns,
    JSONExtractFloat(payload, 'value') AS measured, 0. AS other
FROM pharos.{table:Identifier}
WHERE environment_id = {environment:String} AND type = 'metric' AND name = {name:String}
    AND toDate(timestamp) >= toDate(fromUnixTimestamp64Nano({first_ns:Int64}, 'UTC'))
    AND toDate(timestamp) <= toDate(fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC'))
    AND timestamp >= fromUnixTimestamp64Nano({first_ns:Int64}, 'UTC')
    AND timestamp < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    AND ({service:String} = '' OR service = {service:String})
    AND ({attribute:String} = '' OR JSONExtractString(attributes, {attribute:String}) = {value:String}
        OR JSONExtractRaw(attributes, {attribute:String}) = {value:String})
    AND JSONType(payload, 'value') IN ('Int64', 'UInt64', 'Double');

-- name: ungrouped
-- All points are one group. Columns that are not needed are not read.
SELECT *, '' AS group_name FROM points;

-- name: by_service
-- Each service is a group.
SELECT *, substringUTF8(service_name, 1, 255) AS group_name FROM points;

-- name: by_attribute
-- Each value of the attribute is a group. Long values with the same beginning are one group.
SELECT *, substringUTF8(attribute_value, 1, 255) AS group_name FROM points;

-- name: top_groups
-- Which groups have the largest points, and how many are there?
SELECT group_name, count() OVER () AS all_groups
FROM grouped_points
GROUP BY group_name
ORDER BY max(abs(measured)) DESC, group_name
LIMIT {limit:UInt32};

-- name: values
-- What are the values of each step and group? `total` adds up the averages of the series.
SELECT
    indexOf({groups:Array(String)}, group_name) AS place, step, sum(series_sum) / sum(series_count) AS average, min(least_value) AS minimum, max(largest_value) AS maximum,
    sum(series_sum / series_count) AS total, sum(series_count) AS points
FROM
(
    SELECT
        group_name, intDiv(at_ns, {step_ms:Int64} * 1000000) AS step,
        sum(measured) AS series_sum, count() AS series_count, min(measured) AS least_value, max(measured) AS largest_value
    FROM grouped_points
    WHERE {group_by:String} = '' OR group_name IN {groups:Array(String)}
    GROUP BY group_name, step, series
)
GROUP BY group_name, step
ORDER BY group_name, step
LIMIT {rows:UInt32};

-- name: quantiles
-- What are the 50th, 95th and 99th percentile of the values of each step and group?
SELECT
    indexOf({groups:Array(String)}, group_name) AS place, intDiv(at_ns, {step_ms:Int64} * 1000000) AS step,
    quantilesTDigest(0.5, 0.95, 0.99)(measured) AS quantiles
FROM grouped_points
WHERE {group_by:String} = '' OR group_name IN {groups:Array(String)}
GROUP BY group_name, step
ORDER BY group_name, step
LIMIT {rows:UInt32};

-- name: increases
-- How much did the series of each group increase in each step? Delta points are increases themselves. A
-- cumulative point has increased by the difference from the previous point, which may be before the range, or by its
-- whole value if the series was reset or began after `first_ns`.
SELECT
    indexOf({groups:Array(String)}, group_name) AS place, step, sum(increase) AS total, sum(other_increase) AS other_total, count() AS points
FROM
(
    SELECT
        group_name, at_ns, intDiv(at_ns, {step_ms:Int64} * 1000000) AS step,
        multiIf(
            {is_delta:Bool}, 'all',
            at_before = 0, if(start_ns >= {first_ns:Int64}, 'all', 'none'),
            start_ns != start_before OR measured < measured_before, 'all',
            'difference'
        ) AS counted,
        multiIf(counted = 'all', measured, counted = 'none', 0., measured - measured_before) AS increase,
        multiIf(counted = 'all', other, counted = 'none', 0., other - other_before) AS other_increase
    FROM
    (
        SELECT
            group_name, at_ns, start_ns, measured, other,
            lagInFrame(at_ns, 1, 0) OVER of_series AS at_before,
            lagInFrame(start_ns) OVER of_series AS start_before,
            lagInFrame(measured) OVER of_series AS measured_before,
            lagInFrame(other) OVER of_series AS other_before
        FROM grouped_points
        WHERE {group_by:String} = '' OR group_name IN {groups:Array(String)}
        WINDOW of_series AS (PARTITION BY series ORDER BY at_ns, measured ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
    )
)
WHERE at_ns >= {begin_ns:Int64}
GROUP BY group_name, step
ORDER BY group_name, step
LIMIT {rows:UInt32};

-- name: bucket_quantiles
-- The same of the buckets, and which value is above this share of what they have counted? The buckets of the point before are
-- subtracted: their bounds need not be the same. Values are taken to be spread evenly in a bucket, as Prometheus'
-- `histogram_quantile` does. The first bucket begins at 0, or at its bound if that is negative; the value in a bucket without an
-- upper bound is its lower one. A count may be negative where buckets of other bounds were subtracted.
SELECT
    place, step,
    multiIf(
        all_counted <= 0, NULL,
        isInfinite(upper), if(bucket > 1, lower, NULL),
        lower + (upper - lower) * (rank - below) / (totals[bucket] - below)
    ) AS value
FROM
(
    SELECT
        place, step,
        buckets.1 AS uppers,
        arrayCumSum(buckets.2) AS totals,
        arrayMax(totals) AS all_counted,
        {quantile:Float64} * all_counted AS rank,
        arrayFirstIndex(total -> total >= rank AND total > 0, totals) AS bucket,
        uppers[bucket] AS upper,
        if(bucket > 1, uppers[bucket - 1], least(0., upper)) AS lower,
        if(bucket > 1, greatest(arrayMax(arraySlice(totals, 1, bucket - 1)), 0), 0) AS below
    FROM
    (
        SELECT
            indexOf({groups:Array(String)}, group_name) AS place, step,
            -- `sumMap` leaves out bounds whose sums are all 0: an empty bucket is the lower end of the next one.
            sumMap(changed_bounds, changes, arrayWithConstant(length(changes), 1)) AS buckets
        FROM
        (
            SELECT
                group_name, at_ns, intDiv(at_ns, {step_ms:Int64} * 1000000) AS step,
                multiIf(
                    {is_delta:Bool}, 'all',
                    at_before = 0, if(start_ns >= {first_ns:Int64}, 'all', 'none'),
                    start_ns != start_before OR measured < measured_before, 'all',
                    'difference'
                ) AS counted,
                multiIf(counted = 'all', bounds, counted = 'none', [], arrayConcat(bounds, bounds_before)) AS changed_bounds,
                multiIf(
                    counted = 'all', counts, counted = 'none', [], arrayConcat(counts, arrayMap(number -> -number, counts_before))
                ) AS changes
            FROM
            (
                SELECT
                    group_name, at_ns, start_ns, measured, bounds, counts,
                    lagInFrame(at_ns, 1, 0) OVER of_series AS at_before,
                    lagInFrame(start_ns) OVER of_series AS start_before,
                    lagInFrame(measured) OVER of_series AS measured_before,
                    lagInFrame(bounds) OVER of_series AS bounds_before,
                    lagInFrame(counts) OVER of_series AS counts_before
                FROM grouped_points
                WHERE {group_by:String} = '' OR group_name IN {groups:Array(String)}
                WINDOW of_series AS (PARTITION BY series ORDER BY at_ns, measured ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
            )
        )
        WHERE at_ns >= {begin_ns:Int64}
        GROUP BY group_name, step
        ORDER BY group_name, step
        LIMIT {rows:UInt32}
    )
)
ORDER BY place, step;

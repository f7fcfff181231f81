"""`ExportMetricsServiceRequest`, with all five kinds of metrics."""

from collections.abc import Iterator

from msgspec import Struct

from pipeline_contracts.otlp.values import (
    Count,
    Int32,
    Int64,
    KeyValue,
    Nanoseconds,
    Resource,
    Scope,
    SnakeCase,
    UInt32,
)


class Exemplar(Struct, gc=False):
    """A single measurement behind a data point, with the span in which it was taken."""

    filteredAttributes: list[KeyValue] | None = None
    timeUnixNano: Nanoseconds | None = None
    asDouble: float | None = None
    asInt: Int64 | None = None
    spanId: str | None = None
    traceId: str | None = None
    filtered_attributes: SnakeCase = None
    time_unix_nano: SnakeCase = None
    as_double: SnakeCase = None
    as_int: SnakeCase = None
    span_id: SnakeCase = None
    trace_id: SnakeCase = None


class DataPoint(Struct, gc=False):
    """The fields that the points of all kinds share."""

    attributes: list[KeyValue] | None = None
    startTimeUnixNano: Nanoseconds | None = None
    timeUnixNano: Nanoseconds | None = None
    flags: UInt32 | None = None
    start_time_unix_nano: SnakeCase = None
    time_unix_nano: SnakeCase = None


class NumberPoint(DataPoint, gc=False):
    """A point of a gauge or a sum."""

    asDouble: float | None = None
    asInt: Int64 | None = None
    exemplars: list[Exemplar] | None = None
    as_double: SnakeCase = None
    as_int: SnakeCase = None


class HistogramPoint(DataPoint, gc=False):
    """A point of a histogram: `bucketCounts` has one item more than `explicitBounds`, or both are empty."""

    count: Count | None = None
    sum: float | None = None
    bucketCounts: list[Count] | None = None
    explicitBounds: list[float] | None = None
    exemplars: list[Exemplar] | None = None
    min: float | None = None
    max: float | None = None
    bucket_counts: SnakeCase = None
    explicit_bounds: SnakeCase = None


class Buckets(Struct, gc=False):
    """Counts of consecutive buckets; the first has the index `offset`."""

    offset: Int32 | None = None
    bucketCounts: list[Count] | None = None
    bucket_counts: SnakeCase = None


class ExponentialHistogramPoint(DataPoint, gc=False):
    """A point of an exponential histogram."""

    count: Count | None = None
    sum: float | None = None
    scale: Int32 | None = None
    zeroCount: Count | None = None
    positive: Buckets | None = None
    negative: Buckets | None = None
    exemplars: list[Exemplar] | None = None
    min: float | None = None
    max: float | None = None
    zeroThreshold: float | None = None
    zero_count: SnakeCase = None
    zero_threshold: SnakeCase = None


class ValueAtQuantile(Struct, gc=False):
    """The value at a quantile of 0 to 1."""

    quantile: float | None = None
    value: float | None = None


class SummaryPoint(DataPoint, gc=False):
    """A point of a summary."""

    count: Count | None = None
    sum: float | None = None
    quantileValues: list[ValueAtQuantile] | None = None
    quantile_values: SnakeCase = None


class Gauge(Struct, gc=False):
    """Measured values, which are not added up."""

    dataPoints: list[NumberPoint] | None = None
    data_points: SnakeCase = None


class Sum(Struct, gc=False):
    """Values that add up. Temporality: 1 delta, 2 cumulative."""

    dataPoints: list[NumberPoint] | None = None
    aggregationTemporality: Int32 | None = None
    isMonotonic: bool | None = None
    data_points: SnakeCase = None
    aggregation_temporality: SnakeCase = None
    is_monotonic: SnakeCase = None


class Histogram(Struct, gc=False):
    """Counts by buckets with explicit bounds."""

    dataPoints: list[HistogramPoint] | None = None
    aggregationTemporality: Int32 | None = None
    data_points: SnakeCase = None
    aggregation_temporality: SnakeCase = None


class ExponentialHistogram(Struct, gc=False):
    """Counts by buckets whose bounds grow exponentially."""

    dataPoints: list[ExponentialHistogramPoint] | None = None
    aggregationTemporality: Int32 | None = None
    data_points: SnakeCase = None
    aggregation_temporality: SnakeCase = None


class Summary(Struct, gc=False):
    """Quantiles that the sender computed."""

    dataPoints: list[SummaryPoint] | None = None
    data_points: SnakeCase = None


MetricData = Gauge | Sum | Histogram | ExponentialHistogram | Summary


class Metric(Struct, gc=False):
    """One metric with its points, usually of one kind."""

    name: str | None = None
    description: str | None = None
    unit: str | None = None
    gauge: Gauge | None = None
    sum: Sum | None = None
    histogram: Histogram | None = None
    exponentialHistogram: ExponentialHistogram | None = None
    summary: Summary | None = None
    exponential_histogram: SnakeCase = None

    def data_by_kind(self) -> Iterator[tuple[str, MetricData]]:
        """Yield (name of the kind, its data) of each kind that has points. Record indexes count in this order."""
        for kind in ("gauge", "sum", "histogram", "exponentialHistogram", "summary"):
            data: MetricData | None = getattr(self, kind)
            if data is not None and data.dataPoints:
                yield kind, data


class ScopeMetrics(Struct, gc=False):
    """The metrics of one instrumentation library."""

    scope: Scope | None = None
    metrics: list[Metric] | None = None
    schemaUrl: str | None = None
    schema_url: SnakeCase = None


class ResourceMetrics(Struct, gc=False):
    """The metrics of one resource."""

    resource: Resource | None = None
    scopeMetrics: list[ScopeMetrics] | None = None
    schemaUrl: str | None = None
    scope_metrics: SnakeCase = None
    schema_url: SnakeCase = None


class MetricsRequest(Struct, gc=False):
    """The body of `POST /v1/otlp/v1/metrics`."""

    resourceMetrics: list[ResourceMetrics] | None = None
    resource_metrics: SnakeCase = None

    def by_scope(self) -> Iterator[tuple[ResourceMetrics, ScopeMetrics, list[Metric]]]:
        """Yield the metrics of each scope that has any, with the scope and its resource."""
        for resource_group in self.resourceMetrics or ():
            for scope_group in resource_group.scopeMetrics or ():
                if scope_group.metrics:
                    yield resource_group, scope_group, scope_group.metrics

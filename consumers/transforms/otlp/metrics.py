"""Makes rows of the metric tables. There is one table for each kind of metric."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw, field

from consumers.transforms.otlp.shared_columns import (
    AcceptedRecords,
    RecordOrigin,
    TablePiece,
    hex_id,
    split_into_pieces,
)
from consumers.transforms.otlp.text_values import text_map
from pipeline_contracts.otlp.metrics import (
    Exemplar,
    ExponentialHistogramPoint,
    HistogramPoint,
    Metric,
    MetricsRequest,
    NumberPoint,
    SummaryPoint,
)

_encode_lines = msgspec.json.Encoder().encode_lines
_PREFIX = "pharos.otel_metrics_"


class PointRow(msgspec.Struct, omit_defaults=True, gc=False):
    """The columns that the data points of all kinds have. The exporter uses the same names."""

    MetricName: str
    TimeUnix: str
    StartTimeUnix: str
    MetricDescription: str
    MetricUnit: str
    Attributes: dict[str, str]
    ServiceName: Raw
    """Also contains the other columns of the scope: see `RecordOrigin.shared_columns`."""
    Flags: int = 0
    Value: float | Raw = 0.0
    Count: int = 0
    Sum: float | Raw = 0.0
    Min: float | Raw = 0.0
    Max: float | Raw = 0.0
    AggregationTemporality: int = 0
    IsMonotonic: bool = False
    BucketCounts: Sequence[int] = ()
    ExplicitBounds: Sequence[float | Raw] = ()
    Scale: int = 0
    ZeroCount: int = 0
    ZeroThreshold: float | Raw = 0.0
    PositiveOffset: int = 0
    PositiveBucketCounts: Sequence[int] = ()
    NegativeOffset: int = 0
    NegativeBucketCounts: Sequence[int] = ()
    quantiles: Sequence[float | Raw] = field(name="ValueAtQuantiles.Quantile", default=())
    quantile_values: Sequence[float | Raw] = field(name="ValueAtQuantiles.Value", default=())
    exemplar_attributes: Sequence[dict[str, str]] = field(name="Exemplars.FilteredAttributes", default=())
    exemplar_times: Sequence[str] = field(name="Exemplars.TimeUnix", default=())
    exemplar_values: Sequence[float | Raw] = field(name="Exemplars.Value", default=())
    exemplar_spans: Sequence[str] = field(name="Exemplars.SpanId", default=())
    exemplar_traces: Sequence[str] = field(name="Exemplars.TraceId", default=())


def metric_rows(request: MetricsRequest, origin: RecordOrigin) -> Iterator[TablePiece]:
    """Yield the rows of all data points that the edge has accepted. Each scope and table has one or more pieces."""
    accepted = AcceptedRecords(origin.meta.rejected)
    for resource_group, scope_group, metrics in request.by_scope():
        make_shared = partial(origin.shared_columns, resource_group, scope_group, dropped=True)
        tables, shared = _rows_of_scope(metrics, accepted, origin, make_shared)
        if shared is None:
            continue
        size = memoryview(shared).nbytes + max(map(_max_repeated_bytes, metrics))
        for table, rows in tables.items():
            for piece in split_into_pieces(rows, size):
                yield table, _encode_lines(piece), len(piece)


def _max_repeated_bytes(metric: Metric) -> int:
    """Return how many bytes of the metric each of its rows can repeat at most. An escaped character takes six
    bytes."""
    return 6 * (len(metric.name or "") + len(metric.description or "") + len(metric.unit or ""))


def _rows_of_scope(
    metrics: list[Metric], accepted: AcceptedRecords, origin: RecordOrigin, make_shared: Callable[[], Raw]
) -> tuple[dict[str, list[PointRow]], Raw | None]:
    """Return the rows by table, and the columns that these rows share. The shared columns are None if there are no
    rows."""
    tables: dict[str, list[PointRow]] = {}
    shared: Raw | None = None
    for metric in metrics:
        for kind, data in metric.data_by_kind():
            points: list[Any] = accepted.select(data.dataPoints or [])
            if not points:
                continue
            if shared is None:
                # Make these columns only for a scope with rows: the edge limits the bytes that rows repeat, but not
                # the number of scopes without rows.
                shared = make_shared()
            table, fill = _KINDS[kind]
            rows = tables.setdefault(_PREFIX + table, [])
            for point in points:
                row = _new_row(metric, point, origin, shared)
                fill(row, point, origin)
                row.AggregationTemporality = getattr(data, "aggregationTemporality", None) or 0
                row.IsMonotonic = bool(getattr(data, "isMonotonic", False))
                rows.append(row)
    return tables, shared


def _new_row(metric: Metric, point: Any, origin: RecordOrigin, shared: Raw) -> PointRow:
    return PointRow(
        metric.name or "",
        origin.time(point.timeUnixNano),
        origin.time(point.startTimeUnixNano),
        metric.description or "",
        metric.unit or "",
        text_map(point.attributes),
        shared,
        point.flags or 0,
    )


def _fill_number(row: PointRow, point: NumberPoint, origin: RecordOrigin) -> None:
    row.Value = _value(point)
    _add_exemplars(row, point.exemplars, origin)


def _fill_histogram(row: PointRow, point: HistogramPoint, origin: RecordOrigin) -> None:
    _fill_distribution(row, point)
    row.BucketCounts = point.bucketCounts or []
    row.ExplicitBounds = [json_number(bound) for bound in point.explicitBounds or ()]
    _add_exemplars(row, point.exemplars, origin)


def _fill_exponential_histogram(
    row: PointRow, point: ExponentialHistogramPoint, origin: RecordOrigin
) -> None:
    _fill_distribution(row, point)
    row.Scale = point.scale or 0
    row.ZeroCount = point.zeroCount or 0
    row.ZeroThreshold = json_number(point.zeroThreshold)
    if point.positive is not None:
        row.PositiveOffset = point.positive.offset or 0
        row.PositiveBucketCounts = point.positive.bucketCounts or []
    if point.negative is not None:
        row.NegativeOffset = point.negative.offset or 0
        row.NegativeBucketCounts = point.negative.bucketCounts or []
    _add_exemplars(row, point.exemplars, origin)


def _fill_summary(row: PointRow, point: SummaryPoint, _place: RecordOrigin) -> None:
    row.Count = point.count or 0
    row.Sum = json_number(point.sum)
    values = point.quantileValues or []
    row.quantiles = [json_number(value.quantile) for value in values]
    row.quantile_values = [json_number(value.value) for value in values]


def _fill_distribution(row: PointRow, point: HistogramPoint | ExponentialHistogramPoint) -> None:
    row.Count = point.count or 0
    row.Sum = json_number(point.sum)
    row.Min = json_number(point.min)
    row.Max = json_number(point.max)


def _value(measured: NumberPoint | Exemplar) -> float | Raw:
    if measured.asDouble is not None:
        return json_number(measured.asDouble)
    return float(measured.asInt or 0)


def json_number(value: float | None) -> float | Raw:
    """Return the number in the form that ClickHouse reads from JSON. JSON itself has no NaN and no infinities."""
    if not value:
        return 0.0
    if math.isfinite(value):
        return value
    return Raw(b'"nan"' if math.isnan(value) else b'"inf"' if value > 0 else b'"-inf"')


def _add_exemplars(row: PointRow, exemplars: list[Exemplar] | None, origin: RecordOrigin) -> None:
    if not exemplars:
        return
    row.exemplar_attributes = [text_map(exemplar.filteredAttributes) for exemplar in exemplars]
    row.exemplar_times = [origin.time(exemplar.timeUnixNano) for exemplar in exemplars]
    row.exemplar_values = [_value(exemplar) for exemplar in exemplars]
    row.exemplar_spans = [hex_id(exemplar.spanId, 16) for exemplar in exemplars]
    row.exemplar_traces = [hex_id(exemplar.traceId, 32) for exemplar in exemplars]


_Fill = Callable[[PointRow, Any, RecordOrigin], None]
_KINDS: Mapping[str, tuple[str, _Fill]] = {
    "gauge": ("gauge", _fill_number),
    "sum": ("sum", _fill_number),
    "histogram": ("histogram", _fill_histogram),
    "exponentialHistogram": ("exponential_histogram", _fill_exponential_histogram),
    "summary": ("summary", _fill_summary),
}

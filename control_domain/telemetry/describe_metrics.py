"""Documents of metrics and their series."""

from collections.abc import Sequence
from typing import Annotated, Any, TypedDict, cast

from msgspec import Meta

from analytics_queries.telemetry.metric_names import MetricKind, NamedMetric
from analytics_queries.telemetry.metric_series import (
    Aggregation,
    GroupSeries,
    SeriesRequest,
    fitting_aggregations,
)
from control_domain.telemetry.time_ranges import format_nanoseconds
from pipeline_contracts.times import format_time, from_epoch_ms


class ReportedMetricDocument(TypedDict):
    """A metric. A name that is reported with several kinds is listed once for each kind."""

    name: str
    kind: Annotated[
        MetricKind, Meta(description="A telemetry event of the type `metric` is a point of a gauge.")
    ]
    unit: str | None
    description: str | None
    aggregations: Annotated[
        list[Aggregation],
        Meta(description="The aggregations that fit the kind. The first one is the default of series."),
    ]
    services: Annotated[list[str], Meta(description="Up to 20 services that report it.")]
    last_seen: str


class PointDocument(TypedDict):
    """The value of one step."""

    at: Annotated[str, Meta(description="When the step begins.")]
    value: float


class SeriesDocument(TypedDict):
    """The values of one group. Steps without a value are left out."""

    group: Annotated[
        str | None, Meta(description="The first 255 characters of the value of `group_by`; null without it.")
    ]
    points: list[PointDocument]


class MetricSeriesDocument(TypedDict):
    """The series of a metric."""

    name: str
    kind: MetricKind
    unit: str | None
    aggregation: Aggregation
    step_seconds: int
    group_by: str | None
    series: Annotated[list[SeriesDocument], Meta(description="The groups with the largest values first.")]
    other_groups: Annotated[int, Meta(description="The number of groups that are left out.")]


def describe_metric(metric: NamedMetric) -> ReportedMetricDocument:
    return {
        "name": metric.name,
        "kind": metric.kind,
        "unit": metric.unit or None,
        "description": metric.description or None,
        "aggregations": list(fitting_aggregations(metric)),
        "services": [service for service in metric.services if service],
        "last_seen": format_nanoseconds(metric.last_seen_ns),
    }


def describe_series(
    metric: NamedMetric, request: SeriesRequest, series: Sequence[GroupSeries], all_groups: int
) -> MetricSeriesDocument:
    return {
        "name": metric.name,
        "kind": metric.kind,
        "unit": metric.unit or None,
        "aggregation": request.aggregation,
        "step_seconds": request.step_ms // 1000,
        "group_by": request.group_by or None,
        "series": [_describe_group(each, request) for each in series],
        "other_groups": max(0, all_groups - len(series)),
    }


def _describe_group(series: GroupSeries, request: SeriesRequest) -> SeriesDocument:
    points = [{"at": format_time(from_epoch_ms(at)), "value": value} for at, value in series.points]
    return {"group": series.group if request.group_by else None, "points": cast(Any, points)}

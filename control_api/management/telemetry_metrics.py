"""Metrics of an environment and their series."""

import asyncio
from typing import Annotated

from msgspec import Meta

from analytics_queries.telemetry.metric_names import NamedMetric, NameKey, metric_names
from analytics_queries.telemetry.metric_series import (
    MAX_GROUPS,
    Aggregation,
    GroupSeries,
    SeriesRequest,
    fitting_aggregations,
    metric_series,
)
from analytics_queries.telemetry.time_range import SECOND_NS, TimeRange
from control_api.management.telemetry_pages import (
    DAY,
    HOUR,
    RangePageQuery,
    RangeQuery,
    Service,
    Step,
    Text,
    read_range_pages,
    read_store,
)
from control_api.operations.access import At, at
from control_api.operations.field_rules import join_or
from control_api.operations.pages import PageOf
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import Right
from control_domain.projects.find import DeployTarget, find_environment
from control_domain.telemetry.describe_metrics import (
    MetricSeriesDocument,
    ReportedMetricDocument,
    describe_metric,
    describe_series,
)
from control_domain.telemetry.time_ranges import read_step
from pipeline_contracts.errors import FieldError, InvalidInput, NotFound
from storage_backends.column_store.interface import ColumnStore

operations = OperationRouter("Telemetry")

_Read = Annotated[At[DeployTarget], at(find_environment, "environment", "telemetry:read", Right.READ)]
# The table comes first: a name may contain dots.
_KEY = (str, str)
_MAX_KINDS = 6
_DETAIL = "Fix the query parameters listed below and send the request again."


class MetricQuery(RangePageQuery, kw_only=True):
    """Filters of metrics."""

    search: Annotated[Text | None, Meta(description="A part of the name, in any case.")] = None
    service: Service = None


class SeriesQuery(RangeQuery, kw_only=True):
    """The requested series of a metric."""

    step: Step = None
    aggregation: Annotated[
        Aggregation | None,
        Meta(
            description="An aggregation that fits the kind of the metric; the list of metrics names "
            "them. `rate` of a counter is its increase per second, `sum` its increase in the step; "
            "`sum` of a gauge adds up the averages of its series."
        ),
    ] = None
    group_by: Annotated[
        Text | None,
        Meta(description="`service`, or the name of an attribute, for a series for each of its values."),
    ] = None
    groups: Annotated[
        int,
        Meta(
            ge=1,
            le=MAX_GROUPS,
            description="The largest number of groups, which are those with the largest values.",
        ),
    ] = 10
    service: Service = None
    attribute: Annotated[
        Annotated[
            str, Meta(pattern="^[^=]+=", max_length=500, extra={"rule": "must be like route=/checkout"})
        ]
        | None,
        Meta(description="Only points with this attribute and value.", examples=["route=/checkout"]),
    ] = None


@operations.get("/v1/environments/{environment}/metrics")
async def list_metrics(
    at: _Read, page: Annotated[MetricQuery, query(MetricQuery)]
) -> PageOf[ReportedMetricDocument]:
    """List metrics.

    Metrics that were reported in the time range, by default the last day, in the order of their names. A metric that
    was reported before and after the range on the same day is listed too.
    """
    pages = read_range_pages(at, page, f"metrics of {at.found.environment.public_id}", _KEY, DAY)
    after = None if pages.after is None else NameKey(str(pages.after[1]), str(pages.after[0]))
    store, environment = at.column_store, at.found.environment.public_id
    metrics = await read_store(
        at,
        lambda: metric_names(
            store,
            environment,
            pages.within,
            search=page.search or "",
            service=page.service or "",
            after=after,
            limit=pages.limit + 1,
        ),
    )
    shown = metrics[: pages.limit]
    last = (shown[-1].table, shown[-1].name) if len(metrics) > pages.limit else None
    return pages.answer([describe_metric(metric) for metric in shown], last)


@operations.get("/v1/environments/{environment}/metrics/{name:path}/series")
async def read_series(at: _Read, asked: Annotated[SeriesQuery, query(SeriesQuery)]) -> MetricSeriesDocument:
    """Read the series of a metric.

    The values of each step of the time range, by default the last hour. Steps begin at multiples of their length. If a
    name is reported with several kinds, the kind that was reported last is read.
    """
    within = asked.read(HOUR, at.now)
    step_ms = read_step(asked.step, within)
    attribute, _, value = (asked.attribute or "").partition("=")
    name, store, environment = at.text("name"), at.column_store, at.found.environment.public_id

    async def read() -> tuple[NamedMetric, SeriesRequest, list[GroupSeries], int]:
        metric = await _find_metric(store, environment, name, within)
        request = SeriesRequest(
            within,
            step_ms,
            _choose_aggregation(metric, asked.aggregation),
            group_by=asked.group_by or "",
            groups=asked.groups,
            service=asked.service or "",
            attribute=attribute,
            value=value,
        )
        series, all_groups = await metric_series(store, environment, metric, request)
        return metric, request, list(series), all_groups

    # Build the document in a thread, because there may be 50,000 points.
    return await asyncio.to_thread(describe_series, *await read_store(at, read))


async def _find_metric(store: ColumnStore, environment_id: str, name: str, within: TimeRange) -> NamedMetric:
    """Return the metric as it was reported last. Raises `NotFound`."""
    # Most metrics are reported every minute, so search the last day first, which is faster.
    last_day = TimeRange(max(within.start, within.end - 86_400 * SECOND_NS), within.end)
    for part in (last_day, within) if last_day != within else (within,):
        found = await metric_names(store, environment_id, part, name=name, limit=_MAX_KINDS)
        if found:
            return max(found, key=lambda metric: metric.last_seen_ns)
    raise NotFound("The environment has no such metric in this time range.")


def _choose_aggregation(metric: NamedMetric, asked: Aggregation | None) -> Aggregation:
    fitting = fitting_aggregations(metric)
    if asked is None:
        return fitting[0]
    if asked not in fitting:
        message = f"must be {join_or(fitting)} for a metric of the kind {metric.kind}"
        raise InvalidInput(_DETAIL, errors=[FieldError("aggregation", message)])
    return asked

"""Services of an environment: the requests that they serve, and their slowest calls."""

from datetime import timedelta
from typing import Annotated

from msgspec import Meta

from analytics_queries.telemetry.request_rollups import RequestStep, request_series
from analytics_queries.telemetry.services import ServiceFigures, service_figures, service_trends
from analytics_queries.telemetry.slowest_calls import CallSort, slowest_calls
from control_api.management.telemetry_pages import (
    HOUR,
    RangePageQuery,
    RangeQuery,
    Service,
    Step,
    TrendSteps,
    figures_range,
    has_no_times,
    read_range_pages,
    read_store,
)
from control_api.operations.access import At, at
from control_api.operations.pages import PageOf
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import Right
from control_domain.projects.find import DeployTarget, find_environment
from control_domain.telemetry.describe_services import (
    CallsDocument,
    ServiceDocument,
    ServiceSeriesDocument,
    describe_calls,
    describe_service,
    describe_service_series,
)
from control_domain.telemetry.time_ranges import read_step, trend_step

operations = OperationRouter("Telemetry")

_Read = Annotated[At[DeployTarget], at(find_environment, "environment", "telemetry:read", Right.READ)]
_UNNAMED = "-"


class ServicesQuery(RangePageQuery, kw_only=True):
    """The time range and the page of the list of services."""

    steps: TrendSteps = 0


class ServiceSeriesQuery(RangeQuery, kw_only=True):
    """The time range and its steps."""

    step: Step = None


class CallsQuery(RangeQuery, kw_only=True):
    """Filters of calls."""

    service: Service = None
    sort: Annotated[
        CallSort,
        Meta(
            description="The figure by which calls are ordered, the largest first: the `time` of all "
            "calls together, the `mean` duration, the "
            "number of `calls`, or of `errors`."
        ),
    ] = "time"
    limit: Annotated[int, Meta(ge=1, le=100, description="The largest number of calls.")] = 25


@operations.get("/v1/environments/{environment}/services")
async def list_services(
    at: _Read, page: Annotated[ServicesQuery, query(ServicesQuery)]
) -> PageOf[ServiceDocument]:
    """List services.

    The rate, the errors and the latency of their requests in the time range, by default the last hour, in the order of
    their names.
    """
    # Rates are computed from the range, so it must end now.
    name = f"services of {at.found.environment.public_id}"
    pages = read_range_pages(at, page, name, (int, str), HOUR, ahead=timedelta(0))
    after = None if pages.after is None else str(pages.after[1])
    is_whole = has_no_times(page) if pages.after is None else bool(pages.after[0])
    within, elapsed = figures_range(pages.within, is_whole=is_whole)
    store, environment = at.column_store, at.found.environment.public_id
    step_s = trend_step(pages.within, page.steps) if page.steps else 0

    async def read() -> tuple[list[ServiceFigures], dict[str, list[RequestStep]], bool]:
        found = await service_figures(store, environment, within, after=after, limit=pages.limit + 1)
        shown = list(found[: pages.limit])
        names = [each.service for each in shown] if step_s else []
        trends = await service_trends(store, environment, within, names, step_s)
        return shown, {service: list(trend) for service, trend in trends.items()}, len(found) > len(shown)

    shown, trends, has_more = await read_store(at, read)
    return pages.answer(
        [describe_service(each, elapsed.seconds, trends.get(each.service, ()), step_s) for each in shown],
        [int(is_whole), shown[-1].service] if has_more else None,
    )


@operations.get("/v1/environments/{environment}/services/{service:path}/series")
async def read_service_series(
    at: _Read, asked: Annotated[ServiceSeriesQuery, query(ServiceSeriesQuery)]
) -> ServiceSeriesDocument:
    """Read the requests of a service over time.

    Requests, errors and latency in each step of the time range, by default the last hour, and in all of it. Steps
    begin at multiples of their length. The service `-` stands for requests that do not name a service.
    """
    exact = asked.read(HOUR, at.now)
    step_s = read_step(asked.step, exact) // 1000
    within, elapsed = figures_range(exact, is_whole=has_no_times(asked))
    service = "" if at.text("service") == _UNNAMED else at.text("service")
    store, environment = at.column_store, at.found.environment.public_id

    total, steps = await read_store(
        at,
        lambda: request_series(
            store,
            environment,
            within,
            service=service,
            step_s=step_s,
            limit=int(within.seconds) // step_s + 2,
        ),
    )
    return describe_service_series(service, elapsed, step_s, total, steps)


@operations.get("/v1/environments/{environment}/routes")
async def list_routes(at: _Read, asked: Annotated[CallsQuery, query(CallsQuery)]) -> CallsDocument:
    """List the slowest routes and jobs.

    From telemetry events of the types `request` and `job`, and spans of the kinds Server and Consumer, in the time
    range, by default the last hour.
    """
    return await _read_calls(at, asked, are_queries=False)


@operations.get("/v1/environments/{environment}/queries")
async def list_queries(at: _Read, asked: Annotated[CallsQuery, query(CallsQuery)]) -> CallsDocument:
    """List the slowest database queries.

    From telemetry events of the type `query`, and spans of the kind Client with the attribute `db.system.name` or
    `db.system`, in the time range, by default the last hour.
    """
    return await _read_calls(at, asked, are_queries=True)


async def _read_calls(at: At[DeployTarget], asked: CallsQuery, *, are_queries: bool) -> CallsDocument:
    exact = asked.read(HOUR, at.now)
    within, elapsed = figures_range(exact, is_whole=has_no_times(asked))
    store, environment = at.column_store, at.found.environment.public_id
    found, all_calls = await read_store(
        at,
        lambda: slowest_calls(
            store,
            environment,
            within,
            are_queries=are_queries,
            service=asked.service or "",
            sort=asked.sort,
            limit=asked.limit,
        ),
    )
    return describe_calls(found, all_calls, elapsed.seconds)

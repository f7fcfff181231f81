"""Telemetry events of an environment."""

from typing import Annotated

from msgspec import Meta

from analytics_queries.telemetry.events import EventFilter, EventKey, event_key, newest_events
from control_api.management.telemetry_pages import (
    HOUR,
    RangePageQuery,
    Service,
    Text,
    Trace,
    read_range_pages,
    read_store,
)
from control_api.operations.access import At, at
from control_api.operations.pages import PageOf
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import Right
from control_domain.projects.find import DeployTarget, find_environment
from control_domain.telemetry.describe_events import EventDocument, describe_event
from pipeline_contracts.telemetry import EventType, Severity

operations = OperationRouter("Telemetry")

_Read = Annotated[At[DeployTarget], at(find_environment, "environment", "telemetry:read", Right.READ)]
_EVENT_KEY = (int, int, int, int)


class EventQuery(RangePageQuery, kw_only=True):
    """Filters of telemetry events, which match whole values."""

    type: Annotated[EventType | None, Meta(description="The type of the event.")] = None
    service: Service = None
    severity: Annotated[Severity | None, Meta(description="The severity, exactly.")] = None
    name: Annotated[Text | None, Meta(description="The name of the event.")] = None
    route: Annotated[Text | None, Meta(description="The route of the request.")] = None
    trace: Trace = None


@operations.get("/v1/environments/{environment}/events")
async def list_events(at: _Read, page: Annotated[EventQuery, query(EventQuery)]) -> PageOf[EventDocument]:
    """List telemetry events.

    The events that `POST /v1/ingest` received, by default of the last hour, ordered by their own time, the newest
    first. An event that arrives late may belong to a page that was read before.
    """
    pages = read_range_pages(at, page, f"events of {at.found.environment.public_id}", _EVENT_KEY, HOUR)
    filters = EventFilter(
        type=page.type or "",
        service=page.service or "",
        severity=page.severity or "",
        name=page.name or "",
        route=page.route or "",
        trace=page.trace or "",
    )
    after = None if pages.after is None else EventKey(*map(int, pages.after))
    store, environment = at.column_store, at.found.environment.public_id
    rows = await read_store(
        at, lambda: newest_events(store, environment, pages.within, filters, after, pages.limit + 1)
    )
    shown = rows[: pages.limit]
    more = len(rows) > pages.limit
    return pages.answer([describe_event(row) for row in shown], event_key(shown[-1]) if more else None)

"""Telemetry events, log records and services of an environment."""

from datetime import timedelta
from typing import Annotated, Literal

from msgspec import Meta

from analytics_queries.telemetry.events import EventFilter, EventKey, event_key, newest_events
from analytics_queries.telemetry.logs import LogFilter, LogKey, newest_logs, search_words
from analytics_queries.telemetry.services import service_figures
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
from control_domain.telemetry.describe_events import EventDocument, LogDocument, describe_event, describe_log
from control_domain.telemetry.describe_metrics import ServiceDocument, describe_service
from pipeline_contracts.errors import FieldError, InvalidInput
from pipeline_contracts.telemetry import EventType, Severity

operations = OperationRouter("Telemetry")

_Read = Annotated[At[DeployTarget], at(find_environment, "environment", "telemetry:read", Right.READ)]
_EVENT_KEY = (int, int, int, int)
_LOG_KEY = (int, int, int, int)
_MAX_WORDS = 20
_SEVERITIES = {"debug": 5, "info": 9, "warning": 13, "error": 17, "fatal": 21}


class EventQuery(RangePageQuery, kw_only=True):
    """Filters of telemetry events; each takes whole values."""

    type: Annotated[EventType | None, Meta(description="The type of the event.")] = None
    service: Service = None
    severity: Annotated[Severity | None, Meta(description="The severity, exactly.")] = None
    name: Annotated[Text | None, Meta(description="The name of the event.")] = None
    route: Annotated[Text | None, Meta(description="The route of the request.")] = None
    trace: Trace = None


class LogQuery(RangePageQuery, kw_only=True):
    """Filters of log records."""

    search: Annotated[
        Text | None,
        Meta(
            description="Up to 20 words that the text contains: whole words, in any order; A-Z in any case."
        ),
    ] = None
    severity: Annotated[
        Literal["debug", "info", "warning", "error", "fatal"] | None, Meta(description="The least severity.")
    ] = None
    service: Service = None
    trace: Trace = None


@operations.get("/v1/environments/{environment}/events")
async def list_events(at: _Read, page: Annotated[EventQuery, query(EventQuery)]) -> PageOf[EventDocument]:
    """List telemetry events.

    What `POST /v1/ingest` received, by the time of the event, the newest first; by default of the last hour. An event
    that arrives late may belong on a page that was read before.
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


@operations.get("/v1/environments/{environment}/logs")
async def list_logs(at: _Read, page: Annotated[LogQuery, query(LogQuery)]) -> PageOf[LogDocument]:
    """Search log records.

    OTLP records and telemetry events of the type `log`, the newest first; by default of the last hour.
    """
    pages = read_range_pages(at, page, f"logs of {at.found.environment.public_id}", _LOG_KEY, HOUR)
    filters = LogFilter(
        service=page.service or "",
        trace=(page.trace or "").lower(),
        least_severity=_SEVERITIES[page.severity] if page.severity else 0,
        words=_read_search(page.search),
    )
    after = None if pages.after is None else LogKey(*map(int, pages.after))
    store, environment = at.column_store, at.found.environment.public_id
    rows, last = await read_store(
        at, lambda: newest_logs(store, environment, pages.within, filters, after, pages.limit)
    )
    return pages.answer([describe_log(row) for row in rows], last)


def _read_search(search: str | None) -> tuple[str, ...]:
    words = tuple(search_words(search or ""))
    if search is not None and not 1 <= len(words) <= _MAX_WORDS:
        raise InvalidInput(
            "Correct the query parameters below and send the request again.",
            errors=[FieldError("search", f"must contain 1 to {_MAX_WORDS} words")],
        )
    return words


@operations.get("/v1/environments/{environment}/services")
async def list_services(
    at: _Read, page: Annotated[RangePageQuery, query(RangePageQuery)]
) -> PageOf[ServiceDocument]:
    """List services.

    The rate, the errors and the latency of their requests in the time range, by default the last hour, in the order of
    their names.
    """
    # The range is what rates are computed from: it ends now.
    name = f"services of {at.found.environment.public_id}"
    pages = read_range_pages(at, page, name, (str,), HOUR, ahead=timedelta(0))
    after = None if pages.after is None else str(pages.after[0])
    store, environment = at.column_store, at.found.environment.public_id
    figures = await read_store(
        at, lambda: service_figures(store, environment, pages.within, after=after, limit=pages.limit + 1)
    )
    shown = figures[: pages.limit]
    more = len(figures) > pages.limit
    return pages.answer(
        [describe_service(each, pages.within.seconds) for each in shown],
        [shown[-1].service] if more else None,
    )

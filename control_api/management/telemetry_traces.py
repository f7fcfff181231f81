"""Traces of an environment."""

import asyncio
from typing import Annotated

from msgspec import Meta

from analytics_queries.telemetry.trace_spans import trace_spans
from analytics_queries.telemetry.traces import TraceFilter, TraceKey, newest_traces
from control_api.management.telemetry_pages import HOUR, RangePageQuery, Text, read_range_pages, read_store
from control_api.operations.access import At, at
from control_api.operations.pages import PageOf
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import Right
from control_domain.projects.find import DeployTarget, find_environment
from control_domain.telemetry.describe_traces import (
    MAX_SPANS,
    TraceDocument,
    TraceSummary,
    describe_trace,
    describe_trace_summary,
)
from pipeline_contracts.errors import NotFound

operations = OperationRouter("Telemetry")

_Read = Annotated[At[DeployTarget], at(find_environment, "environment", "telemetry:read", Right.READ)]
_KEY = (int, str)
_HOUR_MS = 3_600_000


class TraceQuery(RangePageQuery, kw_only=True):
    """Filters of traces: a trace is listed if one of its spans meets all of them."""

    service: Annotated[Text | None, Meta(description="The span's service.")] = None
    name: Annotated[Text | None, Meta(description="The span's name.")] = None
    only_errors: Annotated[bool, Meta(description="Only spans with the status Error.")] = False
    min_duration_ms: Annotated[
        Annotated[float, Meta(ge=0, le=24 * _HOUR_MS)] | None,
        Meta(description="The least duration of the span."),
    ] = None


@operations.get("/v1/environments/{environment}/traces")
async def list_traces(at: _Read, page: Annotated[TraceQuery, query(TraceQuery)]) -> PageOf[TraceSummary]:
    """List traces.

    Traces of OTLP spans that began in the time range, by default the last hour, the newest first. A trace whose spans
    are still arriving may be listed again, with an earlier start.
    """
    pages = read_range_pages(at, page, f"traces of {at.found.environment.public_id}", _KEY, HOUR)
    filters = TraceFilter(
        service=page.service or "",
        name=page.name or "",
        only_errors=page.only_errors,
        least_ns=int((page.min_duration_ms or 0) * 1e6),
    )
    after = None if pages.after is None else TraceKey(int(pages.after[0]), str(pages.after[1]))
    store, environment = at.column_store, at.found.environment.public_id
    rows = await read_store(
        at, lambda: newest_traces(store, environment, pages.within, filters, after, pages.limit + 1)
    )
    shown = rows[: pages.limit]
    last = (shown[-1]["started_ns"], shown[-1]["trace_id"]) if len(rows) > pages.limit else None
    return pages.answer([describe_trace_summary(row) for row in shown], last)


@operations.get("/v1/environments/{environment}/traces/{trace}")
async def read_trace(at: _Read) -> TraceDocument:
    """Read a trace.

    Its spans as a tree, up to 5,000 of them.
    """
    trace_id = at.text("trace").lower()
    store, environment = at.column_store, at.found.environment.public_id
    rows = await read_store(at, lambda: trace_spans(store, environment, trace_id, MAX_SPANS + 1))
    if not rows:
        raise NotFound("The environment has no such trace, or it is no longer stored.")
    # Build the document in a thread, because a trace may have 5,000 spans.
    return await asyncio.to_thread(describe_trace, trace_id, rows)

"""Log records of an environment: search, counts over time, the records around a moment, and a live stream."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from fastapi import Response
from msgspec import Meta

from analytics_queries.telemetry.log_histogram import log_histogram
from analytics_queries.telemetry.logs import (
    LogFilter,
    LogKey,
    following_logs,
    newest_logs,
    search_words,
)
from analytics_queries.telemetry.time_range import SECOND_NS, TimeRange, to_nanoseconds
from control_api.live_logs.log_streams import Reader
from control_api.live_logs.stream_log import accepts_event_stream
from control_api.live_logs.stream_records import FollowedRecords, stream_records
from control_api.management.telemetry_pages import (
    HOUR,
    RangePageQuery,
    RangeQuery,
    Service,
    Step,
    Text,
    Trace,
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
from control_domain.telemetry.describe_events import LogDocument, describe_log
from control_domain.telemetry.describe_log_histogram import (
    LogContextDocument,
    LogHistogramDocument,
    describe_histogram,
)
from control_domain.telemetry.time_ranges import CLOCK_AHEAD, read_step, whole_range
from pipeline_contracts.errors import FieldError, InvalidInput

operations = OperationRouter("Telemetry")

_Read = Annotated[At[DeployTarget], at(find_environment, "environment", "telemetry:read", Right.READ)]
_LOG_KEY = (int, int, int, int)
_MAX_WORDS = 20
_SEVERITIES = {"debug": 5, "info": 9, "warning": 13, "error": 17, "fatal": 21}
_CONTEXT_NS = 24 * 3600 * SECOND_NS

_Search = Annotated[
    Text | None,
    Meta(description="Up to 20 words that the text contains: whole words, in any order; A-Z in any case."),
]
_Severity = Annotated[
    Literal["debug", "info", "warning", "error", "fatal"] | None, Meta(description="The least severity.")
]


class LogQuery(RangePageQuery, kw_only=True):
    """Filters of log records."""

    search: _Search = None
    severity: _Severity = None
    service: Service = None
    trace: Trace = None


class LogHistogramQuery(RangeQuery, kw_only=True):
    """Filters of log records, and the steps in which they are counted."""

    step: Step = None
    search: _Search = None
    severity: _Severity = None
    service: Service = None
    trace: Trace = None


class LogContextQuery(msgspec.Struct, kw_only=True):
    """The moment, and the number of records around it."""

    at: Annotated[
        Annotated[
            datetime,
            Meta(tz=True, extra={"rule": "must be a time with its zone, like 2026-11-26T03:10:00Z"}),
        ],
        Meta(description="The moment, for example the `timestamp` of a record."),
    ]
    service: Service = None
    limit: Annotated[
        int, Meta(ge=1, le=200, description="The largest number of records before and after it.")
    ] = 50


@operations.get("/v1/environments/{environment}/logs", streams=True, answer=PageOf[LogDocument])
async def list_logs(at: _Read, page: Annotated[LogQuery, query(LogQuery)]) -> PageOf[LogDocument] | Response:
    """Search log records.

    OTLP records and telemetry events of the type `log`, the newest first; by default of the last hour. With `Accept:
    text/event-stream`, the response streams the records that are stored from then on, as one event `records` a second
    with up to 500 records. A stream ends after 15 minutes. An account may have 16 streams at once, a person 8.
    """
    filters = _read_filters(page)
    store, environment = at.column_store, at.found.environment.public_id
    if accepts_event_stream(at.request):
        await at.end_transaction()
        followed = FollowedRecords(environment, Reader(at.account.id, at.caller.person.id), filters)
        return stream_records(at.request, at.make_reader_check(), store, followed)
    pages = read_range_pages(at, page, f"logs of {environment}", _LOG_KEY, HOUR)
    after = None if pages.after is None else LogKey(*map(int, pages.after))
    rows, last = await read_store(
        at, lambda: newest_logs(store, environment, pages.within, filters, after, pages.limit)
    )
    return pages.answer([describe_log(row) for row in rows], last)


@operations.get("/v1/environments/{environment}/logs/histogram")
async def read_log_histogram(
    at: _Read, asked: Annotated[LogHistogramQuery, query(LogHistogramQuery)]
) -> LogHistogramDocument:
    """Count log records over time.

    The numbers by severity in each step of the time range, by default the last hour, with the filters of the list.
    """
    exact = asked.read(HOUR, at.now, ahead=CLOCK_AHEAD)
    step_s = read_step(asked.step, exact) // 1000
    filters = _read_filters(asked)
    has_rollup = not filters.words and not filters.trace
    within = whole_range(exact, largest_s=60) if has_rollup and has_no_times(asked) else exact
    store, environment = at.column_store, at.found.environment.public_id
    counted = await read_store(at, lambda: log_histogram(store, environment, within, filters, step_s))
    return describe_histogram(counted, step_s)


@operations.get("/v1/environments/{environment}/logs/context")
async def read_log_context(
    at: _Read, asked: Annotated[LogContextQuery, query(LogContextQuery)]
) -> LogContextDocument:
    """Read the log records around a moment.

    The records within a day before and after it, of all services or of one.
    """
    # Responses truncate times to microseconds: the record in the middle may be up to a microsecond later.
    middle = to_nanoseconds(asked.at) + 1000
    filters = LogFilter(service=asked.service or "")
    store, environment = at.column_store, at.found.environment.public_id

    async def read() -> tuple[Sequence[dict[str, Any]], Sequence[dict[str, Any]]]:
        earlier = TimeRange(middle - _CONTEXT_NS, middle)
        before, _ = await newest_logs(store, environment, earlier, filters, None, asked.limit)
        later = TimeRange(middle, middle + _CONTEXT_NS)
        return before, await following_logs(store, environment, later, filters, asked.limit)

    before, after = await read_store(at, read)
    return {"before": [describe_log(row) for row in before], "after": [describe_log(row) for row in after]}


def _read_filters(asked: LogQuery | LogHistogramQuery) -> LogFilter:
    return LogFilter(
        service=asked.service or "",
        trace=(asked.trace or "").lower(),
        least_severity=_SEVERITIES[asked.severity] if asked.severity else 0,
        words=_read_search(asked.search),
    )


def _read_search(search: str | None) -> tuple[str, ...]:
    words = tuple(search_words(search or ""))
    if search is not None and not 1 <= len(words) <= _MAX_WORDS:
        raise InvalidInput(
            "Fix the query parameters listed below and send the request again.",
            errors=[FieldError("search", f"must contain 1 to {_MAX_WORDS} words")],
        )
    return words

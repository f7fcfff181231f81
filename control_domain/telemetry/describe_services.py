"""Documents of services, their series, and their slowest calls."""

from collections.abc import Sequence
from typing import Annotated, TypedDict

from msgspec import Meta

from analytics_queries.telemetry.request_rollups import Percentiles, RequestStep
from analytics_queries.telemetry.services import ServiceFigures
from analytics_queries.telemetry.slowest_calls import CallFigures, CallKind
from analytics_queries.telemetry.time_range import SECOND_NS, TimeRange
from pipeline_contracts.times import format_time, from_epoch_ms

_Errors = Annotated[
    int,
    Meta(
        description="Requests with a status from 500 on, the severity error or critical, or the status Error."
    ),
]
_ErrorRate = Annotated[float, Meta(description="The share of failed requests, from 0 to 1.")]
_Rate = Annotated[float, Meta(description="Requests a second.")]


class LatencyDocument(TypedDict):
    """Percentiles of durations in milliseconds, with an error of at most 1 %; null without durations."""

    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


class RequestTrendPoint(TypedDict):
    """The requests of one step."""

    at: Annotated[str, Meta(description="When the step begins.")]
    requests: int
    errors: _Errors


class ServiceDocument(TypedDict):
    """The requests that a service served: telemetry events of the types `request` and `job`, and spans of the kinds
    Server and Consumer."""

    service: Annotated[str | None, Meta(description="Null for requests that do not name a service.")]
    requests: int
    rate: _Rate
    errors: _Errors
    error_rate: _ErrorRate
    latency: LatencyDocument
    trend: Annotated[
        list[RequestTrendPoint],
        Meta(description="Empty without `steps`; steps without requests are left out."),
    ]


class ServicePoint(TypedDict):
    """The requests of one step."""

    at: Annotated[str, Meta(description="When the step begins.")]
    requests: int
    rate: _Rate
    errors: _Errors
    error_rate: _ErrorRate
    latency: LatencyDocument


class ServiceSeriesDocument(TypedDict):
    """The requests of a service in each step of a time range, and in all of it."""

    service: str | None
    step_seconds: int
    begins_at: str
    ends_at: str
    requests: int
    rate: _Rate
    errors: _Errors
    error_rate: _ErrorRate
    latency: LatencyDocument
    points: Annotated[list[ServicePoint], Meta(description="Steps without requests are left out.")]


class CallDocument(TypedDict):
    """A route or a job that a service serves, or a database query that it makes."""

    service: str | None
    kind: CallKind
    name: Annotated[
        str, Meta(description="The route, the name of the job or span, or the statement: 500 characters.")
    ]
    calls: int
    rate: Annotated[float, Meta(description="Calls a second.")]
    errors: _Errors
    error_rate: _ErrorRate
    total_ms: Annotated[float, Meta(description="The durations of all calls together.")]
    mean_ms: float
    latency: LatencyDocument


class CallsDocument(TypedDict):
    """The slowest calls, and the number of other calls."""

    calls: list[CallDocument]
    other_calls: int


def describe_service(
    figures: ServiceFigures, seconds: float, trend: Sequence[RequestStep] = (), step_s: int = 0
) -> ServiceDocument:
    """`seconds`: the length of the time range; `step_s`: the length of a step of the trend."""
    return {
        "service": figures.service or None,
        "requests": figures.requests,
        "rate": figures.requests / seconds,
        "errors": figures.errors,
        "error_rate": _share(figures.errors, figures.requests),
        "latency": _describe_latency(figures.durations),
        "trend": [
            {"at": format_step(each.step, step_s), "requests": each.requests, "errors": each.errors}
            for each in trend
        ],
    }


def describe_service_series(
    service: str, within: TimeRange, step_s: int, total: RequestStep | None, steps: Sequence[RequestStep]
) -> ServiceSeriesDocument:
    """`within`: the time range up to now; `total`: the requests in the whole range, None if there are none."""
    requests, errors = (total.requests, total.errors) if total else (0, 0)
    return {
        "service": service or None,
        "step_seconds": step_s,
        "begins_at": format_time(from_epoch_ms(within.start // 1_000_000)),
        "ends_at": format_time(from_epoch_ms(within.end // 1_000_000)),
        "requests": requests,
        "rate": requests / within.seconds,
        "errors": errors,
        "error_rate": _share(errors, requests),
        "latency": _describe_latency(total.durations if total else Percentiles(None, None, None)),
        "points": [_describe_point(each, within, step_s) for each in steps],
    }


def describe_calls(found: Sequence[CallFigures], all_calls: int, seconds: float) -> CallsDocument:
    """`seconds`: the length of the time range."""
    return {
        "calls": [_describe_call(each, seconds) for each in found],
        "other_calls": max(0, all_calls - len(found)),
    }


def format_step(step: int, step_s: int) -> str:
    """Return the time at which a step begins, as in responses."""
    return format_time(from_epoch_ms(step * step_s * 1000))


def _describe_point(each: RequestStep, within: TimeRange, step_s: int) -> ServicePoint:
    # The first and the last step may be shorter. Requests in later steps come from clocks that are ahead.
    begin = max(within.start, each.step * step_s * SECOND_NS)
    end = (each.step + 1) * step_s * SECOND_NS
    if begin < within.end:
        end = min(within.end, end)
    return {
        "at": format_step(each.step, step_s),
        "requests": each.requests,
        "rate": each.requests * SECOND_NS / max(end - begin, 1),
        "errors": each.errors,
        "error_rate": _share(each.errors, each.requests),
        "latency": _describe_latency(each.durations),
    }


def _describe_call(each: CallFigures, seconds: float) -> CallDocument:
    return {
        "service": each.key.service or None,
        "kind": each.key.kind,
        "name": each.key.name,
        "calls": each.calls,
        "rate": each.calls / seconds,
        "errors": each.errors,
        "error_rate": _share(each.errors, each.calls),
        "total_ms": each.total_ms,
        "mean_ms": each.total_ms / each.calls,
        "latency": _describe_latency(each.durations),
    }


def _describe_latency(durations: Percentiles) -> LatencyDocument:
    return {"p50_ms": durations.p50, "p95_ms": durations.p95, "p99_ms": durations.p99}


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0

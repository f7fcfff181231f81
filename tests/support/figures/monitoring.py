"""The figures of pages of telemetry."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from tests.support.figures.expected import Reader, Shown
from tests.support.figures.texts import (
    write_bytes,
    write_count,
    write_duration,
    write_plural,
    write_rate,
    write_share,
    write_short,
)

# The time zone of the browsers of `tests/support/dashboard_browser.py`.
_ZONE = ZoneInfo("Europe/Oslo")
_LEVELS = ((21, "FATAL"), (17, "ERROR"), (13, "WARN"), (9, "INFO"), (1, "DEBUG"), (0, "–"))
_INSIDE = r"environments/\w+/"


def _write_tick(at: str) -> str:
    """Return the time of a chart's step: `Fri 27 Nov, 04:34`."""
    time = datetime.fromisoformat(at).astimezone(_ZONE)
    return f"{time:%a} {time.day} {time:%b}, {time:%H:%M}"


def _write_latencies(latency: Mapping[str, float | None], *names: str) -> str:
    return " ".join(write_duration(latency[f"{name}_ms"]) for name in names)


def _read_services(services: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    per_minute = all(each["rate"] < 1 for each in services)
    for each in services:
        yield [
            each["service"] or "Without a name",
            write_short(each["requests"]),
            write_rate(each["rate"], per_minute=per_minute),
            write_share(each["error_rate"]),
            _write_latencies(each["latency"], "p50", "p95", "p99"),
        ]


def _read_calls(found: Mapping[str, Any]) -> Iterable[list[str]]:
    for each in found["calls"]:
        yield [
            each["name"] or "Without a name",
            f"{write_duration(each['total_ms'])} {write_short(each['calls'])} {write_share(each['error_rate'])}"
            f" {write_duration(each['mean_ms'])} {_write_latencies(each['latency'], 'p95', 'p99')}",
        ]
    if found["other_calls"]:
        yield [f"{write_plural(found['other_calls'], 'other')} with less time"]


def _read_service(series: Mapping[str, Any]) -> Iterable[list[str]]:
    per_minute = all(point["rate"] < 1 for point in series["points"])
    yield ["Requests", write_count(series["requests"]), write_rate(series["rate"], per_minute=per_minute)]
    yield ["Errors", write_share(series["error_rate"]), write_plural(series["errors"], "error")]
    for name in ("p50", "p95", "p99"):
        yield [name, _write_latencies(series["latency"], name)]
    for point in series["points"]:
        tick = _write_tick(point["at"])
        yield [f"{tick} {write_rate(point['rate'], per_minute=per_minute)}"]
        yield [f"{tick} {write_share(point['errors'] / point['requests'] if point['requests'] else 0)}"]
        yield [f"{tick} {_write_latencies(point['latency'], 'p50', 'p95', 'p99')}"]


def _read_exceptions(groups: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in groups:
        users = each["affected_users"]
        counts = (
            f"{write_short(each['count'])} {_write_users(users)}" if users else write_short(each["count"])
        )
        yield [
            each["type"] or each["message"],
            each["message"],
            counts,
            each["first_seen"],
            each["last_seen"],
            *([each["first_deployment"]["version"]] if each["first_deployment"] else []),
            *([each["assignee"]["name"]] if each["assignee"] else []),
        ]


def _write_users(users: int) -> str:
    return f"{write_short(users)} {'user' if users == 1 else 'users'}"


def _read_exception(group: Mapping[str, Any]) -> Iterable[list[str]]:
    yield ["Exceptions", write_count(group["count"]), "in this time range"]
    yield ["Users", write_count(group["affected_users"] or None)]
    yield ["First seen", group["first_seen"]]
    yield ["Last seen", group["last_seen"]]


def _read_exception_series(series: Mapping[str, Any]) -> Iterable[list[str]]:
    for point in series["points"]:
        yield [f"{_write_tick(point['at'])} {write_count(point['count'])}"]


def _read_occurrences(exceptions: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in exceptions:
        yield [each["timestamp"], each["message"], *([f"user {each['user']}"] if each["user"] else [])]


def _read_traces(traces: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in traces:
        errors = [write_plural(each["errors"], "error")] if each["errors"] else []
        more = [f"+{len(each['services']) - 1}"] if len(each["services"]) > 1 else []
        spans = f"{write_count(each['spans'])} {write_duration(each['duration_ms'])}"
        yield [each["name"] or each["id"], each["started_at"], spans, *errors, *more]


def _read_trace(trace: Mapping[str, Any]) -> Iterable[list[str]]:
    yield ["Duration", write_duration(trace["duration_ms"])]
    yield ["Spans", write_count(trace["spans"]), write_plural(len(trace["services"]), "service")]
    yield ["Errors", write_count(trace["errors"])]
    yield ["Started", trace["started_at"], trace["id"]]
    for span in trace["tree"]:
        failed = [", failed"] if span["status"] == "Error" else []
        yield [span["name"] or "Without a name", write_duration(span["duration_ms"]), *failed]


def _read_lines_of_trace(logs: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    yield ["Log lines", write_count(len(logs))]


def _read_logs(logs: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in logs:
        level = next(word for number, word in _LEVELS if each["severity_number"] >= number)
        yield [each["timestamp"], level, each["service"] or "", each["text"][:1000]]


def _read_histogram(histogram: Mapping[str, Any]) -> Iterable[list[str]]:
    yield [write_plural(histogram["records"], "record")]
    for point in histogram["points"]:
        errors = point["error"] + point["fatal"]
        counts = (point["records"], point["warning"] + errors, errors)
        yield [f"{_write_tick(point['at'])} {' '.join(map(write_count, counts))}"]


def _read_metrics(metrics: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in metrics:
        yield [each["name"], each["kind"].replace("_", " ")]


def _read_metric(found: Mapping[str, Any]) -> Iterable[list[str]]:
    step = found["step_seconds"]
    often = "minute" if step == 60 else write_duration(step * 1000)
    yield [f"{found['kind'].capitalize().replace('_', ' ')}, one value every {often}"]
    for series in found["series"]:
        for point in series["points"]:
            value = _write_measured(point["value"], found["unit"], found["aggregation"])
            yield [_write_tick(point["at"]), value]


def _write_measured(value: float, unit: str | None, aggregation: str) -> str:
    per = "/s" if aggregation == "rate" else ""
    if aggregation == "count":
        return write_count(value)
    match unit:
        case "ms" | "s":
            return f"{write_duration(value if unit == 'ms' else value * 1000)}{per}"
        case "By" | "bytes":
            return f"{write_bytes(value)}{per}"
        case None | "" | "1":
            return f"{write_count(value)} {per}".strip()
    word = unit[1:-1] if unit.startswith("{") and unit.endswith("}") else unit
    return f"{write_count(value)} {word}{per}"


def _inside(**shown: Reader) -> Shown:
    return {_INSIDE + path.replace("__", "/"): read for path, read in shown.items()}


_CALLS = _inside(routes=_read_calls, queries=_read_calls)

MONITORING: dict[str, Shown] = {
    "/monitoring/:environment/services": {**_inside(services=_read_services), **_CALLS},
    "/monitoring/:environment/services/:service": {
        _INSIDE + r"services/\w+/series": _read_service,
        **_CALLS,
    },
    "/monitoring/:environment/exceptions": _inside(exceptions=_read_exceptions),
    "/monitoring/:environment/exceptions/:group": {
        _INSIDE + r"exceptions/\w+": _read_exception,
        _INSIDE + r"exceptions/\w+/series": _read_exception_series,
        _INSIDE + r"exceptions/\w+/events": _read_occurrences,
    },
    "/monitoring/:environment/traces": _inside(traces=_read_traces),
    "/monitoring/:environment/traces/:trace": {
        _INSIDE + r"traces/\w+": _read_trace,
        **_inside(logs=_read_lines_of_trace),
    },
    "/monitoring/:environment/logs": _inside(logs=_read_logs, logs__histogram=_read_histogram),
    "/monitoring/:environment/metrics": {
        **_inside(metrics=_read_metrics),
        _INSIDE + r"metrics/[^/]+/series": _read_metric,
    },
}

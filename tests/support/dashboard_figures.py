"""Compares the figures on a page with the response of the API that the page shows."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.dashboard_browser import Person

Expected = Iterable[tuple[str, list[str]]]
"""Texts by the label of a table row or of a tile."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What a page shows of a response. `path` is a regular expression of the response's path below `/api`."""

    page: str
    path: str
    read: Callable[[Any], Expected]


def write_count(value: int | float | None) -> str:
    """Return a number as `formatCount` writes it."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if float(value).is_integer() else f"{round(value, 2):,}".rstrip("0").rstrip(".")


def write_short(value: float) -> str:
    """Return a number as `formatShort` writes it: `12.3K`."""
    for size, unit in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if value >= size:
            return f"{round(value / size, 1):g}{unit}"
    return f"{value:g}"


def write_duration(ms: float) -> str:
    """Return milliseconds as `formatDuration` writes them."""
    if ms < 1000:
        digits = 2 if ms < 1 else 1 if ms < 10 else 0
        return f"{_trim(ms, digits)} ms"
    if ms < 60_000:
        return f"{_trim(ms / 1000, 2 if ms < 10_000 else 1)} s"
    seconds = _round_up(ms / 1000)
    if seconds < 3600:
        return _two(seconds // 60, "min", seconds % 60, "s")
    minutes = _round_up(ms / 60_000)
    if minutes < 1440:
        return _two(minutes // 60, "h", minutes % 60, "min")
    hours = _round_up(ms / 3_600_000)
    return _two(hours // 24, "d", hours % 24, "h")


def _round_up(value: float) -> int:
    """Round as JavaScript does: a half goes up."""
    return int(value + 0.5)


def _trim(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _two(first: int, first_unit: str, second: int, second_unit: str) -> str:
    return f"{first} {first_unit}" if second == 0 else f"{first} {first_unit} {second} {second_unit}"


def read_queues(queues: list[Mapping[str, Any]]) -> Expected:
    """Yield what the list of queues shows."""
    for queue in queues:
        wait = queue["oldest_wait_seconds"]
        yield (
            queue["name"],
            [
                write_count(queue["pending"]),
                "–" if wait is None else write_duration(wait * 1000),
                write_count(queue["failed"]),
                *(f"{queue['workers'][name]} {name}" for name in ("busy", "idle") if queue["workers"][name]),
            ],
        )


def read_heartbeats(heartbeats: list[Mapping[str, Any]]) -> Expected:
    """Yield what the list of heartbeats shows."""
    for heartbeat in heartbeats:
        runs = heartbeat["recent_runs"] or []
        durations = sorted(run["duration_seconds"] for run in runs if run["duration_seconds"] is not None)
        median = durations[(len(durations) - 1) // 2] if durations else None
        yield heartbeat["name"], ["–" if median is None else write_duration(median * 1000)]


def read_incidents(incidents: list[Mapping[str, Any]]) -> Expected:
    """Yield what the list of open incidents shows."""
    for incident in incidents:
        scope = [each["name"] for each in (incident["project"], incident["environment"]) if each is not None]
        yield incident["title"], [incident["severity"].capitalize(), *([" / ".join(scope)] if scope else [])]


def read_thresholds(thresholds: list[Mapping[str, Any]]) -> Expected:
    """Yield what the list of thresholds shows."""
    for threshold in thresholds:
        kind = threshold["kind"]
        limit, value = (
            None if number is None else _write_value(kind, number)
            for number in (threshold["threshold"], threshold["value"])
        )
        yield threshold["name"], [f"{threshold['direction']} {limit}", value or "–", threshold["target"]]


def _write_value(kind: str, value: float) -> str:
    match kind:
        case "queue.wait":
            return write_duration(value * 1000)
        case "service.latency":
            return write_duration(value)
        case "queue.size":
            return f"{write_count(round(value, 2))} jobs"
        case "service.error_rate":
            return f"{write_count(round(value, 2))} %"
    return write_count(round(value, 2))


_STORED = {
    "events": "Events",
    "spans": "Spans",
    "log_records": "Log records",
    "metric_points": "Metric points",
    "pageviews": "Page views",
}


def read_usage(usage: Mapping[str, Any]) -> Expected:
    """Yield what the tiles of the usage show."""
    for name, label in _STORED.items():
        yield label, [write_short(sum(day[name] for day in usage["days"]))]


def read_people(people: list[Mapping[str, Any]]) -> Expected:
    """Yield what the list of people shows."""
    for person in people:
        yield person["email"], [person["name"]]


FIGURES = (
    Figures("/jobs/queues", r"/v1/monitors/queues", read_queues),
    Figures("/jobs/heartbeats", r"/v1/monitors/heartbeats", read_heartbeats),
    Figures("/notifications/incidents?state=firing", r"/v1/incidents", read_incidents),
    Figures("/notifications/thresholds", r"/v1/thresholds", read_thresholds),
    Figures("/settings/usage", r"/v1/usage", read_usage),
    Figures("/settings/people", r"/v1/people", read_people),
)

_ROWS = """() => [...document.querySelectorAll('tr, .tile, li')].map((row) =>
  [...row.querySelectorAll('td, th, .label, .value, .more, a, span')].map((cell) => cell.innerText.trim()))"""


async def find_wrong_figures(person: Person, figures: Figures) -> list[str]:
    """Open the page, and return the figures that differ from the last response that it was given."""
    pattern = re.compile(f".*/api{figures.path}(\\?.*)?$")
    async with person.page.expect_response(pattern) as waited:
        await person.page.goto(person.origin + figures.page)
    response = await waited.value
    document = json.loads(await response.text())["data"]
    await person.wait_until_quiet()
    rows: list[list[str]] = await person.page.evaluate(_ROWS)
    wrong = []
    for label, texts in figures.read(document):
        found = [cells for cells in rows if label in cells or any(cell.startswith(label) for cell in cells)]
        if not any(all(any(text in cell for cell in cells) for text in texts) for cells in found):
            wrong.append(f"{figures.page} {label}: expected {texts}, found {found[:2]}")
    return wrong

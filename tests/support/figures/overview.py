"""The figures of the overview and of the first steps."""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from tests.support.figures.expected import Shown
from tests.support.figures.texts import write_count, write_duration, write_plural, write_share

_SHOWN_OF_GROUP = 6
_STATES = {"ok": "Healthy", "warning": "Warning", "critical": "Critical", "idle": "No data"}
_GROUPS = {"critical": "Critical", "warning": "Warnings", "info": "Waiting for you or others"}


def _read_overview(overview: Mapping[str, Any]) -> Iterable[list[str]]:
    items = overview["attention"]["items"]
    critical = sum(each["severity"] == "critical" for each in items)
    projects = write_plural(len(overview["projects"]), "project")
    yield [
        f"{write_plural(critical, 'critical problem')} in {projects}" if critical else f"{projects}, nothing"
    ]
    by_severity = sorted(items, key=lambda each: list(_GROUPS).index(each["severity"]))
    for severity, group in groupby(by_severity, key=lambda each: each["severity"]):
        listed = list(group)
        yield [f"{_GROUPS[severity]} {write_count(len(listed))}"]
        for each in listed[:_SHOWN_OF_GROUP]:
            count = [] if each["count"] is None else [f"{write_count(each['count'])} in 24 h"]
            yield [each["title"], *count, *([each["detail"]] if each["detail"] else []), each["at"]]
    for each in overview["projects"]:
        yield [each["project"]["name"], *_write_project(each)]


def _write_project(each: Mapping[str, Any]) -> Iterable[str]:
    yield _STATES[each["state"]]
    if each["deployment"] is not None:
        yield f"#{each['deployment']['number']}"
        yield each["deployment"]["at"]
    # The columns in their order, so that none shows the number of another.
    counts = [
        write_count(each[name]) for name in ("incidents", "heartbeats_failing", "exceptions", "requests")
    ]
    yield " ".join(counts)
    if each["requests"] and each["errors"] is not None:
        failed = f"{write_share(each['errors'] / each['requests'])} failed"
        yield failed if each["p95_ms"] is None else f"{failed}, p95 {write_duration(each['p95_ms'])}"
    yield write_count(each["visitors"])


def _read_timeline(timeline: Mapping[str, Any]) -> Iterable[list[str]]:
    sums = (
        (len(timeline["deployments"] or ()), "deployment"),
        (sum(timeline["exceptions"] or ()), "exception"),
        (sum(timeline["heartbeat_failures"] or ()), "failed run"),
        (sum(timeline["incidents_started"] or ()), "incident"),
        (sum(timeline["page_views"] or ()), "page view"),
    )
    yield [write_plural(*each) for each in sums]
    for each in (timeline["deployments"] or ())[-4:]:
        yield [each["project"]["name"], each["environment"]["name"], each["at"]]
    names = ("visitors", "exceptions", "heartbeat_failures", "incidents_started")
    for row in zip(*(timeline[name] for name in names if timeline[name] is not None), strict=True):
        yield [" ".join(map(write_count, row))]


def _read_steps(start: Mapping[str, Any]) -> Iterable[list[str]]:
    done = sum(step["done"] for step in start["steps"])
    yield [f"{done} of {len(start['steps'])} done"]


OVERVIEW: dict[str, Shown] = {
    "/": {"overview": _read_overview, "overview/timeline": _read_timeline},
    "/start": {"getting-started": _read_steps},
}

"""The figures of the report on a site, and of the list of sites."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from tests.support.figures.expected import Shown
from tests.support.figures.texts import (
    write_count,
    write_duration,
    write_fixed,
    write_percent,
    write_plural,
    write_seconds,
    write_short,
)


def _write_visit_duration(seconds: float) -> str:
    return "0 s" if seconds == 0 else write_seconds(seconds)


_METRICS: dict[str, tuple[str, Callable[[float], str]]] = {
    "visitors": ("Visitors", write_count),
    "visits": ("Visits", write_count),
    "pageviews": ("Page views", write_count),
    "views_per_visit": ("Views per visit", write_count),
    "bounce_rate": ("Bounce rate", write_percent),
    "visit_duration": ("Visit duration", _write_visit_duration),
    "conversion_rate": ("Conversion rate", write_percent),
}
_RATES = ("bounce_rate", "conversion_rate")
_RATINGS = {"good": "Good", "needs-improvement": "Needs work", "poor": "Poor"}


def _read_figures(figures: Mapping[str, Any]) -> Iterable[list[str]]:
    for name, metric in figures["metrics"].items():
        label, write = _METRICS[name]
        change, previous = metric["change"], metric["previous"]
        shown = [label, write(metric["value"])]
        if change is not None and previous is not None:
            is_new = previous == 0 and metric["value"] > 0
            shown += [write(previous), "new" if is_new else _write_change(change, name in _RATES)]
        yield shown
    for each, before in zip(figures["series"], figures["comparison_series"] or [], strict=False):
        yield [f"{_write_day(each['at'])} {write_count(each['visitors'])} {write_count(before['visitors'])}"]


def _write_change(change: float, is_rate: bool) -> str:
    sign = "+" if change > 0 else "−" if change < 0 else "±"
    size = write_fixed(abs(change), 1).removesuffix(".0")
    return f"{sign}{size} {'points' if is_rate else '%'}"


def _write_day(at: str) -> str:
    day = datetime.fromisoformat(at)
    return f"{day:%a} {day.day} {day:%b}"


def _read_lists(found: Mapping[str, Any]) -> Iterable[list[str]]:
    for name, entries in found["lists"].items():
        for each in entries["entries"]:
            # Countries are written in words.
            known = [] if name == "countries" else [each["name"]]
            yield [*known, write_short(each["visitors"]), f"{write_count(each['visitors'])} visitors"]
        if entries["total"] > len(entries["entries"]):
            yield [f"{write_count(entries['total'])} entries"]


def _read_conversions(found: Mapping[str, Any]) -> Iterable[list[str]]:
    for each in found["goals"]:
        counts = f"{write_count(each['visitors'])} {write_count(each['conversions'])}"
        revenue = [f"{money['amount']:,.2f}" for money in each["revenue"]]
        yield [each["name"], f"{counts} {write_percent(each['conversion_rate'])}", *revenue]


def _read_speed(found: Mapping[str, Any]) -> Iterable[list[str]]:
    for speed in found["metrics"].values():
        if speed["samples"]:
            value = write_duration(speed["p75"]) if speed["unit"] == "ms" else write_fixed(speed["p75"], 2)
            yield [value, _RATINGS[speed["rating"]], write_plural(speed["samples"], "measurement")]


def _read_current_visitors(found: Mapping[str, Any]) -> Iterable[list[str]]:
    yield [write_plural(found["visitors"], "current visitor")]


def _read_activity(activity: Mapping[str, Any]) -> Iterable[list[str]]:
    for each in activity["sites"]:
        views = each["pageviews"]
        today = write_count(views[-1] if views else 0)
        yield [f"{write_count(each['current_visitors'])} {today} {write_short(sum(views))}"]


def _read_sites(sites: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in sites:
        yield [each["name"], *([each["last_event_at"]] if each["verified"] else [])]


def _read_goals(goals: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    for each in goals:
        yield [each["name"], each["event"] or each["path"], each["created_at"]]


_SITE = r"analytics/sites/\d+"
_LISTS: Shown = {f"{_SITE}/lists": _read_lists}

ANALYTICS: dict[str, Shown] = {
    "/analytics": {"analytics/sites": _read_sites, "analytics/activity": _read_activity},
    "/analytics/:site": {
        f"{_SITE}/figures": _read_figures,
        f"{_SITE}/conversions": _read_conversions,
        f"{_SITE}/page-speed": _read_speed,
        f"{_SITE}/current-visitors": _read_current_visitors,
        **_LISTS,
    },
    "/analytics/:site?sources_tab=campaigns&pages_tab=missing_pages&devices_tab=browsers": _LISTS,
    "/analytics/:site/settings?tab=goals": {f"{_SITE}/goals": _read_goals},
}

"""Makes reports on sites, for the days and filters of a query."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from analytics_queries.visits.report_request import Goals, ReportRequest, VisitFilters
from analytics_queries.visits.site_report import site_report
from control_domain.sites.describe_report import ReportedGoal, ReportedSite, describe_report
from control_domain.tables.sites import Goal, Site
from pipeline_contracts.errors import FieldError, InvalidInput
from storage_backends.column_store.interface import ColumnStore

_DEFAULT_DAYS = 30
_DAYS = (1, 7, _DEFAULT_DAYS, 90, 365)
_DEVICES = ("Desktop", "Mobile", "Tablet")
_COUNTRY = re.compile("[A-Za-z]{2}")
_MAX_LENGTHS = {"path": 2048, "source": 255, "campaign": 255}
_NAMES = ("days", *_MAX_LENGTHS, "device", "country")


@dataclass(frozen=True, slots=True)
class ReportQuery:
    """The number of days up to now, and the filters of visits."""

    days: int
    filters: VisitFilters


def read_report_query(params: Iterable[tuple[str, str]]) -> ReportQuery:
    """Read the query from names and values. An empty value counts as absent; other names are ignored.

    Raises `InvalidInput` that lists every field at fault.
    """
    values: dict[str, list[str]] = {}
    for name, value in params:
        if name in _NAMES and value:
            values.setdefault(name, []).append(value)
    faults = []
    for name, found in values.items():
        message = "must be given once" if len(found) > 1 else _find_fault(name, found[0])
        if message is not None:
            faults.append(FieldError(name, message))
    if faults:
        raise InvalidInput("Fix the fields listed below and send the request again.", errors=faults)
    chosen = {name: found[0] for name, found in values.items()}
    days = int(chosen.pop("days", _DEFAULT_DAYS))
    if "country" in chosen:
        chosen["country"] = chosen["country"].upper()
    return ReportQuery(days, VisitFilters(**chosen))


def _find_fault(name: str, value: str) -> str | None:
    """Return the fault of the value, or None."""
    match name:
        case "days":
            allowed = [str(days) for days in _DAYS]
            return None if value in allowed else f"must be one of {', '.join(allowed)}"
        case "device":
            return None if value in _DEVICES else f"must be one of {', '.join(_DEVICES)}"
        case "country":
            return None if _COUNTRY.fullmatch(value) else "must be two letters (ISO 3166-1 alpha-2)"
    max_length = _MAX_LENGTHS[name]
    return None if len(value) <= max_length else f"must have at most {max_length} characters"


def what_goals_count(goals: Sequence[Goal]) -> Goals:
    """Return the events and paths of these goals. Several goals may count the same one."""
    events = dict.fromkeys(goal.event for goal in goals if goal.event is not None)
    paths = dict.fromkeys(goal.path for goal in goals if goal.path is not None)
    return Goals(tuple(events), tuple(paths))


async def make_report(
    store: ColumnStore, site: Site, goals: Sequence[Goal], query: ReportQuery, now: datetime
) -> dict[str, Any]:
    """Return the report as the document under `data`. Raises `StorageUnavailable`."""
    request = ReportRequest(site.id, site.timezone, query.filters, what_goals_count(goals), now)
    reported = [ReportedGoal(goal.id, goal.name, goal.event, goal.path) for goal in goals]
    return describe_report(
        ReportedSite(site.id, site.name, site.timezone, reported),
        query.filters,
        await site_report(store, request, query.days),
    )

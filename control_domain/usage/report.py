"""The data that an account has stored on each of the last days, in total and by environment and site."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Annotated, TypedDict

from msgspec import Meta

from analytics_queries.telemetry.rows_by_day import DayOfEnvironment, rows_by_day
from analytics_queries.visits.pageviews_by_day import DayOfSite, pageviews_by_day
from control_domain.projects.describe import EnvironmentSummary, ProjectSummary
from control_domain.usage.inventory import (
    EnvironmentWithProject,
    Inventory,
    ObjectCounts,
    SiteWithProject,
)
from storage_backends.column_store.interface import ColumnStore

MAX_DAYS = 90
MAX_LISTED = 200
"""Limit of environments and sites that are listed with their days. 200 of them with 90 days take 2 MB of JSON."""

_Day = Annotated[str, Meta(description="A calendar day in UTC.", examples=["2026-11-26"])]


class TelemetryOfDay(TypedDict):
    """Telemetry that was received on a day."""

    day: _Day
    events: int
    spans: int
    log_records: int
    metric_points: int


class PageviewsOfDay(TypedDict):
    """Page views of a day."""

    day: _Day
    pageviews: int


class UsageOfDay(TelemetryOfDay):
    """The data of a day that the account stores."""

    pageviews: int


class UsageOfEnvironment(TypedDict):
    """The telemetry of an environment."""

    environment: EnvironmentSummary
    project: ProjectSummary
    days: Annotated[list[TelemetryOfDay], Meta(description="Days without any are left out.")]


class SiteSummary(TypedDict):
    """A site, as other documents include it."""

    id: int
    name: str


class UsageOfSite(TypedDict):
    """The page views of a site."""

    site: SiteSummary
    project: ProjectSummary
    days: Annotated[list[PageviewsOfDay], Meta(description="Days without any are left out.")]


class UsageDocument(TypedDict):
    """The objects of the account, and its stored data by day. Data whose retention has ended does not count."""

    since: Annotated[str, Meta(description="The first day.", examples=["2026-10-28"])]
    until: Annotated[str, Meta(description="The last day, today in UTC.", examples=["2026-11-26"])]
    counts: ObjectCounts
    days: Annotated[list[UsageOfDay], Meta(description="Every day of the period, the earliest first.")]
    environments: Annotated[
        list[UsageOfEnvironment],
        Meta(
            description="The environments that stored something, of the projects that you may see; at most "
            f"{MAX_LISTED}, those with the most data. `days` counts all."
        ),
    ]
    sites: Annotated[
        list[UsageOfSite], Meta(description="The sites that stored something, listed like the environments.")
    ]


@dataclass(frozen=True, slots=True)
class Stored:
    """The numbers of stored rows; days without rows are left out."""

    telemetry: Mapping[DayOfEnvironment, int]
    pageviews: Mapping[DayOfSite, int]


async def read_stored(store: ColumnStore, inventory: Inventory, since: date) -> Stored:
    """Return the data that the environments and sites have stored since this day. Raises `StorageUnavailable`."""
    return Stored(
        await rows_by_day(store, [each.public_id for each in inventory.environments], since),
        await pageviews_by_day(store, [each.id for each in inventory.sites], since),
    )


def first_day(days: int, now: datetime) -> date:
    """Return the first of this many days that end today in UTC."""
    return now.date() - timedelta(days=days - 1)


def describe_usage(inventory: Inventory, stored: Stored, since: date, until: date) -> UsageDocument:
    """Return the usage from `since` through `until`; later days, by a sender's clock, are left out."""
    days = [since + timedelta(days=number) for number in range((until - since).days + 1)]
    total: dict[date, Counter[str]] = {day: Counter() for day in days}
    by_environment: dict[str, dict[date, Counter[str]]] = {}
    by_site: dict[int, dict[date, int]] = {}
    for (environment_id, day, kind), rows in stored.telemetry.items():
        if day in total:
            total[day][kind] += rows
            by_environment.setdefault(environment_id, {}).setdefault(day, Counter())[kind] += rows
    for (site_id, day), rows in stored.pageviews.items():
        if day in total:
            total[day]["pageviews"] += rows
            by_site.setdefault(site_id, {})[day] = rows
    return {
        "since": since.isoformat(),
        "until": until.isoformat(),
        "counts": inventory.counts,
        "days": [{**_describe_day(day, total[day]), "pageviews": total[day]["pageviews"]} for day in days],
        "environments": _describe_environments(inventory, by_environment),
        "sites": _describe_sites(inventory, by_site),
    }


def _describe_day(day: date, rows: Counter[str]) -> TelemetryOfDay:
    return {
        "day": day.isoformat(),
        "events": rows["events"],
        "spans": rows["spans"],
        "log_records": rows["log_records"],
        "metric_points": rows["metric_points"],
    }


def _describe_environments(
    inventory: Inventory, by_environment: Mapping[str, Mapping[date, Counter[str]]]
) -> list[UsageOfEnvironment]:
    listed = [
        each
        for each in inventory.environments
        if each.public_id in by_environment and inventory.is_visible(each.project_id)
    ]
    listed.sort(key=lambda each: -sum(day.total() for day in by_environment[each.public_id].values()))
    return [
        {
            "environment": {"id": each.public_id, "name": each.name, "slug": each.slug},
            "project": _summarize_project(each),
            "days": [
                _describe_day(day, rows) for day, rows in sorted(by_environment[each.public_id].items())
            ],
        }
        for each in listed[:MAX_LISTED]
    ]


def _describe_sites(inventory: Inventory, by_site: Mapping[int, Mapping[date, int]]) -> list[UsageOfSite]:
    listed = [
        each for each in inventory.sites if each.id in by_site and inventory.is_visible(each.project_id)
    ]
    listed.sort(key=lambda each: -sum(by_site[each.id].values()))
    return [
        {
            "site": {"id": each.id, "name": each.name},
            "project": _summarize_project(each),
            "days": [
                {"day": day.isoformat(), "pageviews": rows} for day, rows in sorted(by_site[each.id].items())
            ],
        }
        for each in listed[:MAX_LISTED]
    ]


def _summarize_project(each: EnvironmentWithProject | SiteWithProject) -> ProjectSummary:
    return {"id": each.project_public_id, "name": each.project_name, "slug": each.project_slug}

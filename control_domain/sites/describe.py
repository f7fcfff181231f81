"""Documents of sites and goals, as the management API returns them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, NamedTuple, TypedDict

from msgspec import Meta

from control_domain.projects.describe import ProjectSummary, summarize_project
from control_domain.sites.operations import SiteWithProject
from control_domain.tables.sites import Goal
from pipeline_contracts.times import format_optional_time, format_time


class SiteSettingsDocument(TypedDict):
    """The settings of a site."""

    id: int
    name: str
    project: ProjectSummary
    tracker_id: Annotated[str, Meta(description="The public ID in the tracker's script, `sit_…`.")]
    domains: Annotated[list[str], Meta(description="The origins that may send events.")]
    timezone: str
    created_at: str


class SiteDetails(SiteSettingsDocument):
    """A site with figures of its received events, which are null while the column store does not answer."""

    verified: Annotated[bool | None, Meta(description="True once an event was received.")]
    last_event_at: str | None
    dropped_events: Annotated[
        dict[str, int] | None,
        Meta(
            description="The number of events of the last 30 days that were dropped, by reason, such as `bot`."
        ),
    ]


class RemovedSite(TypedDict):
    """A site that was removed."""

    id: int
    name: str
    tracker_id: str


class GoalDocument(TypedDict):
    """A goal of a site: visitors send an event, or view a page. Either `event` or `path` is null."""

    id: int
    name: str
    event: str | None
    path: str | None
    created_at: str


def describe_site_settings(found: SiteWithProject) -> SiteSettingsDocument:
    site = found.site
    return {
        "id": site.id,
        "name": site.name,
        "project": summarize_project(found.project),
        "tracker_id": site.public_id,
        "domains": found.domains,
        "timezone": site.timezone,
        "created_at": format_time(site.created_at),
    }


class Received(NamedTuple):
    """The column store's figures of a site."""

    last_event: datetime | None
    """When the newest event was received."""
    dropped: Mapping[str, int]
    """The number of dropped events by reason."""


def describe_site_details(found: SiteWithProject, received: Received | None) -> SiteDetails:
    """`received` is None if the column store does not answer."""
    return {
        **describe_site_settings(found),
        "verified": None if received is None else received.last_event is not None,
        "last_event_at": None if received is None else format_optional_time(received.last_event),
        "dropped_events": None if received is None else dict(received.dropped),
    }


def describe_removed_site(found: SiteWithProject) -> RemovedSite:
    return {"id": found.site.id, "name": found.site.name, "tracker_id": found.site.public_id}


def describe_goal(goal: Goal) -> GoalDocument:
    return {
        "id": goal.id,
        "name": goal.name,
        "event": goal.event,
        "path": goal.path,
        "created_at": format_time(goal.created_at),
    }

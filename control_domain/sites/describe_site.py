"""Sites and goals as documents for people and programs."""

from datetime import datetime
from typing import Any

from control_domain.projects.describe import name_project
from control_domain.sites.operations import SeenSite
from control_domain.tables.sites import Goal
from pipeline_contracts.times import format_time


def describe_site(seen: SeenSite, last_event: datetime | None) -> dict[str, Any]:
    """As the public API has it. `last_event`: when its newest event was received."""
    site, project = seen.site, seen.project
    return {
        "id": site.id,
        "name": site.name,
        "project": name_project(project),
        "tracker_id": site.public_id,
        "domains": seen.domains,
        "timezone": site.timezone,
        # Events from other origins are refused: one that is stored came from a registered one.
        "verified": last_event is not None,
        "last_event_at": None if last_event is None else format_time(last_event),
    }


def describe_goal(goal: Goal) -> dict[str, Any]:
    """Either `event` or `path` is null."""
    return {"id": goal.id, "name": goal.name, "event": goal.event, "path": goal.path}

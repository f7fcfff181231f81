"""One list of the items that need attention: the worst first, and each problem once."""

import json
from collections.abc import Mapping
from typing import Annotated, TypedDict

from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncSession

from control_api.incident_pages.incident_words import describe_beginning
from control_domain.accounts.operations import Caller
from control_domain.notifications.incidents import FoundIncident, IncidentFilters, count_open, list_incidents
from control_domain.overview.attention_items import (
    MAX_ITEMS,
    AttentionItem,
    Found,
    Section,
    Subject,
    make_item,
)
from control_domain.paging import Page
from control_domain.projects.describe import summarize_environment, summarize_project
from pipeline_contracts.alert_kinds import SEVERITIES
from pipeline_contracts.times import format_time

_MAX_ITEMS = 60


class AttentionTotals(TypedDict):
    """The total number of items of each kind. Null if the token lacks the scope to read them."""

    incidents: int | None
    failed_deployments: int | None
    waiting: Annotated[
        int | None, Meta(description="Deployments and changes of variables that wait for approval.")
    ]
    failed_configuration_runs: int | None
    heartbeats: int | None
    queues: int | None
    exceptions: int | None
    services: int | None


class Attention(TypedDict):
    """The items that need attention now."""

    items: Annotated[
        list[AttentionItem],
        Meta(
            description="Up to 60 items, and up to 20 of each kind: the most severe first, then the newest."
        ),
    ]
    totals: AttentionTotals


async def describe_incidents(session: AsyncSession, caller: Caller) -> Section:
    """Return the open incidents that the caller may see, the newest first."""
    found, has_more = await list_incidents(
        session, caller, IncidentFilters(state="firing"), Page(MAX_ITEMS, None)
    )
    total = await count_open(session, caller) if has_more else len(found)
    return Section([_describe_incident(each) for each in found], total)


def _describe_incident(found: FoundIncident) -> Found:
    incident, project, environment = found.incident, found.project, found.environment
    description = describe_beginning(incident)
    item = make_item(
        "incident",
        next(name for name in SEVERITIES if name == incident.severity),
        description.title,
        format_time(incident.started_at),
        ("incident", incident.public_id),
        None if project is None else summarize_project(project),
        None if environment is None else summarize_environment(environment),
        detail="Acknowledged" if incident.acknowledged_at is not None else None,
    )
    if environment is None:
        return Found(item)
    family = incident.kind.partition(".")[0]
    names = [incident.subject, str(json.loads(incident.facts).get("target", incident.subject))]
    return Found(item, [(environment.public_id, family, name) for name in names])


def merge_attention(sections: Mapping[str, Section]) -> Attention:
    """Return all items in one list. If an item has an open incident, only the incident is listed. But for a pending
    approval, only the approval is listed, because that is where people decide."""
    of_waiting = _subjects(sections, "waiting")
    of_incidents = _subjects(sections, "incidents") - of_waiting
    items = [
        each.item
        for name, section in sections.items()
        for each in section.found
        if (of_waiting if name == "incidents" else of_incidents).isdisjoint(each.subjects)
    ]
    items.sort(key=lambda item: item["at"], reverse=True)
    items.sort(key=lambda item: -SEVERITIES.index(item["severity"]))
    totals: AttentionTotals = {
        "incidents": _total(sections, "incidents"),
        "failed_deployments": _total(sections, "failed_deployments"),
        "waiting": _total(sections, "waiting"),
        "failed_configuration_runs": _total(sections, "failed_configuration_runs"),
        "heartbeats": _total(sections, "heartbeats"),
        "queues": _total(sections, "queues"),
        "exceptions": _total(sections, "exceptions"),
        "services": _total(sections, "services"),
    }
    return {"items": items[:_MAX_ITEMS], "totals": totals}


def _subjects(sections: Mapping[str, Section], name: str) -> set[Subject]:
    return (
        {subject for each in sections[name].found for subject in each.subjects} if name in sections else set()
    )


def _total(sections: Mapping[str, Section], name: str) -> int | None:
    return sections[name].total if name in sections else None


def worst_of_projects(attention: Attention) -> Mapping[str, str]:
    """Return the worst severity of each project, by its public ID."""
    worst: dict[str, str] = {}
    for item in attention["items"]:
        if item["project"] is not None:
            worst.setdefault(item["project"]["id"], item["severity"])
    return worst

"""Items that need attention in all projects of the caller, and the health of projects: `/v1/overview`."""

from typing import Annotated, TypedDict

from msgspec import Meta

from control_api.management.telemetry_pages import read_store
from control_api.operations.access import At, at_account
from control_api.operations.router import OperationRouter
from control_api.overview.merge_attention import (
    Attention,
    describe_incidents,
    merge_attention,
    worst_of_projects,
)
from control_domain.overview import project_health
from control_domain.overview.attention_items import Section
from control_domain.overview.deployments_and_changes import (
    find_failed_deployments,
    find_failed_runs,
    find_waiting_changes,
    find_waiting_deployments,
)
from control_domain.overview.failing_monitors import find_failing_heartbeats, find_full_queues
from control_domain.overview.project_health import CountedByProject, ProjectHealth, describe_projects
from control_domain.overview.stored_attention import (
    StoredFigures,
    find_exceptions,
    find_services,
    read_decided_groups,
    read_stored_figures,
)
from control_domain.overview.visible import Visible, read_visible
from control_domain.tables.accounts import Account
from pipeline_contracts.times import format_time

operations = OperationRouter("Overview")

_Account = Annotated[At[Account], at_account("account:read")]


class OverviewDocument(TypedDict):
    """The items that need attention now, and the health of each project."""

    at: str
    attention: Attention
    projects: Annotated[
        list[ProjectHealth], Meta(description="Up to 200 projects, in the order in which they were created.")
    ]


@operations.get("/v1/overview")
async def read_overview(at: _Account) -> OverviewDocument:
    """Read what needs attention.

    Open incidents, failed and waiting deployments, exceptions that are new or frequent, services that fail or are
    slow, late heartbeats, and queues beyond their thresholds, of all projects that you may read. A problem that has an
    open incident is listed once, as the incident. Items that the scopes of the token do not allow are left out.
    """
    visible = await read_visible(at.session, at.caller)
    sections = await _read_database(at)
    counted = await _count(at, visible)
    has_telemetry, has_sites = "telemetry:read" in at.caller.scopes, "analytics:read" in at.caller.scopes
    decided = await read_decided_groups(at.session, at.caller) if has_telemetry else ()
    figures = StoredFigures()
    if has_telemetry or has_sites:
        store, now = at.column_store, at.now
        figures = await read_store(
            at,
            lambda: read_stored_figures(
                store, visible, now, has_telemetry=has_telemetry, has_sites=has_sites
            ),
        )
    sections["exceptions"] = find_exceptions(figures, visible, decided, at.now)
    sections["services"] = find_services(figures, visible, at.now)
    attention = merge_attention(sections)
    rows = describe_projects(
        visible,
        counted,
        figures,
        worst_of_projects(attention),
        has_telemetry=has_telemetry,
        has_sites=has_sites,
    )
    return {"at": format_time(at.now), "attention": attention, "projects": [*rows]}


async def _read_database(at: At[Account]) -> dict[str, Section]:
    """Return the items from the database that the scopes allow, by the name of their total."""
    scopes, session, caller = at.caller.scopes, at.session, at.caller
    sections: dict[str, Section] = {}
    if "notifications:read" in scopes:
        sections["incidents"] = await describe_incidents(session, caller)
    if "deploy:read" in scopes:
        sections["failed_deployments"] = await find_failed_deployments(session, caller)
        waiting = await find_waiting_deployments(session, caller)
        changes = await find_waiting_changes(session, caller)
        sections["waiting"] = Section([*waiting.found, *changes.found], waiting.total + changes.total)
        sections["failed_configuration_runs"] = await find_failed_runs(session, caller)
    if "monitoring:read" in scopes:
        sections["heartbeats"] = await find_failing_heartbeats(session, caller)
        sections["queues"] = await find_full_queues(session, caller)
    return sections


async def _count(at: At[Account], visible: Visible) -> CountedByProject:
    scopes, session, caller = at.caller.scopes, at.session, at.caller
    return CountedByProject(
        await project_health.read_newest_deployments(session, caller, visible)
        if "deploy:read" in scopes
        else None,
        await project_health.count_incidents(session, caller) if "notifications:read" in scopes else None,
        await project_health.count_failing_heartbeats(session, caller)
        if "monitoring:read" in scopes
        else None,
    )

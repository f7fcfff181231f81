"""The health of each project in one row: its newest deployment and its problems."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple, TypedDict

from msgspec import Meta
from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.deployments.details import Status, list_details
from control_domain.overview.deployments_and_changes import newest_deployments
from control_domain.overview.stored_attention import StoredFigures
from control_domain.overview.visible import Visible
from control_domain.projects.describe import EnvironmentSummary, ProjectSummary
from control_domain.projects.find import in_visible_projects
from control_domain.tables.deployments import Deployment
from control_domain.tables.monitors import IS_FAILING, Heartbeat, HeartbeatState
from control_domain.tables.notifications import AlertIncident
from control_domain.tables.projects import Environment, Project

MAX_PROJECTS = 200


class NewestDeployment(TypedDict):
    """The newest deployment of a project."""

    number: int
    status: Status
    environment: EnvironmentSummary | None
    revision: str | None
    commit_subject: str | None
    at: str


class ProjectHealth(TypedDict):
    """The health of a project. A figure is null if the token lacks the scope to read it."""

    project: ProjectSummary
    state: Annotated[
        Literal["ok", "warning", "critical", "idle"],
        Meta(description="The worst state of its items; `idle` if nothing was deployed or received."),
    ]
    environments: int
    deployment: NewestDeployment | None
    incidents: Annotated[int | None, Meta(description="Open incidents.")]
    heartbeats_failing: Annotated[int | None, Meta(description="Heartbeats that are late or down.")]
    exceptions: Annotated[int | None, Meta(description="Exceptions in the last 24 hours.")]
    requests: Annotated[int | None, Meta(description="Requests in the last hour.")]
    errors: Annotated[int | None, Meta(description="Failed requests in the last hour.")]
    p95_ms: Annotated[float | None, Meta(description="The slowest p95 of its services in the last hour.")]
    visitors: Annotated[int | None, Meta(description="Visitors of its sites in the last 24 hours.")]


class CountedByProject(NamedTuple):
    """Figures from the database by the number of the project; None if the token lacks the scope."""

    deployments: Mapping[int, NewestDeployment] | None
    incidents: Mapping[int, int] | None
    heartbeats: Mapping[int, int] | None


async def count_incidents(session: AsyncSession, caller: Caller) -> Mapping[int, int]:
    """Return the number of open incidents by project."""
    query = (
        select(AlertIncident.project_id, func.count())
        .where(AlertIncident.account_id == caller.account.id, AlertIncident.open_key.is_not(None))
        .group_by(AlertIncident.project_id)
    )
    return {project: count for project, count in await session.execute(query) if project is not None}


async def count_failing_heartbeats(session: AsyncSession, caller: Caller) -> Mapping[int, int]:
    """Return the number of heartbeats that are late or down, by project."""
    # Account scope: `in_visible_projects` is bound to the account.
    failing = select(HeartbeatState.heartbeat_id).where(text(IS_FAILING)).subquery()
    query = (
        select(Project.id, func.count())
        .join(Environment, Environment.project_id == Project.id)
        .join(Heartbeat, Heartbeat.environment_id == Environment.id)
        .join(failing, failing.c.heartbeat_id == Heartbeat.id)
        .where(*in_visible_projects(caller))
        .group_by(Project.id)
    )
    return {int(project): int(count) for project, count in await session.execute(query)}


async def read_newest_deployments(
    session: AsyncSession, caller: Caller, visible: Visible
) -> Mapping[int, NewestDeployment]:
    """Return the newest deployment by project; previews count only if nothing else was deployed."""
    numbers = {project.public_id: project.id for project in visible.projects.values()}
    previews = {each.public_id for each in visible.environments.values() if each.type == "preview"}
    listed = await list_details(
        session, caller.account.id, Deployment.id.in_(newest_deployments(caller)), limit=1000
    )
    found: dict[int, NewestDeployment] = {}
    for each in sorted(listed, key=lambda each: each["environment_id"] in previews):
        project = numbers.get(each["project"]["id"])
        if project is not None and project not in found:
            found[project] = {
                "number": each["id"],
                "status": each["status"],
                "environment": each["environment"],
                "revision": each["revision"],
                "commit_subject": each["commit_subject"],
                "at": each["finished_at"] or each["created_at"],
            }
    return found


def describe_projects(
    visible: Visible,
    counted: CountedByProject,
    figures: StoredFigures,
    severities: Mapping[str, str],
    *,
    has_telemetry: bool,
    has_sites: bool,
) -> Sequence[ProjectHealth]:
    """Return a row for each of the first `MAX_PROJECTS` projects. `severities`: the worst severity in each project, by
    public ID."""
    environments = Counter(each.project_id for each in visible.environments.values())
    exceptions = _sum_by_project(visible, figures.exceptions_of.items())
    requests = _sum_by_project(
        visible, ((environment, load.requests) for (environment, _), load in figures.services.items())
    )
    errors = _sum_by_project(
        visible, ((environment, load.errors) for (environment, _), load in figures.services.items())
    )
    slowest: dict[int, float] = {}
    for (environment, _), load in figures.services.items():
        if load.p95_ms is not None:
            owner = visible.by_public_id[environment].project_id
            slowest[owner] = max(load.p95_ms, slowest.get(owner, 0.0))
    visitors: Counter[int] = Counter()
    for site in visible.sites:
        if site.id in figures.visits:
            visitors[site.project_id] += figures.visits[site.id].visitors
    rows: list[ProjectHealth] = []
    for number, project in [*visible.projects.items()][:MAX_PROJECTS]:
        deployment = (counted.deployments or {}).get(number)
        is_idle = deployment is None and not (requests[number] or exceptions[number] or visitors[number])
        rows.append(
            {
                "project": project.summarize(),
                "state": _state(severities.get(project.public_id), is_idle=is_idle),
                "environments": environments[number],
                "deployment": deployment,
                "incidents": None if counted.incidents is None else counted.incidents.get(number, 0),
                "heartbeats_failing": None
                if counted.heartbeats is None
                else counted.heartbeats.get(number, 0),
                "exceptions": exceptions[number] if has_telemetry else None,
                "requests": requests[number] if has_telemetry else None,
                "errors": errors[number] if has_telemetry else None,
                "p95_ms": slowest.get(number),
                "visitors": visitors[number] if has_sites else None,
            }
        )
    return rows


def _state(worst: str | None, *, is_idle: bool) -> Literal["ok", "warning", "critical", "idle"]:
    if worst == "critical" or worst == "warning":
        return "critical" if worst == "critical" else "warning"
    return "idle" if is_idle else "ok"


def _sum_by_project(visible: Visible, counts: Iterable[tuple[str, int]]) -> Counter[int]:
    sums: Counter[int] = Counter()
    for environment, count in counts:
        sums[visible.by_public_id[environment].project_id] += count
    return sums

"""Documents of environments: settings, lock, live release, and pending deployments and approvals."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, cast

from msgspec import Meta
from sqlalchemy import func, literal_column, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from control_domain.accounts.describe import PersonSummary, summarize_person
from control_domain.environments.windows import load_window
from control_domain.projects.describe import (
    EnvironmentDocument,
    ProjectSummary,
    describe_environment,
    summarize_project,
)
from control_domain.projects.find import DeployTarget
from control_domain.tables.accounts import Person
from control_domain.tables.deployments import Deployment, LiveRelease, Release
from control_domain.tables.projects import Environment, EnvironmentLock, Project
from control_domain.tables.variables import VariableChange, VariableSet
from pipeline_contracts.deploy_states import ACTIVE_STATUSES, DeploymentStatus
from pipeline_contracts.times import format_time

_MAX_WAITING = 20


class ApprovalSettings(TypedDict):
    """The kinds of changes that wait for a second person."""

    deploys: bool
    variables: bool


class LockDocument(TypedDict):
    """The lock of an environment, which refuses deployments."""

    reason: str
    by: Annotated[
        PersonSummary | None, Meta(description="Null if an operator or a configuration run locked it.")
    ]
    since: str


class LiveDocument(TypedDict):
    """The release that an environment serves."""

    deployment_id: Annotated[int, Meta(description="The deployment that built it.")]
    revision: str
    since: str
    held: Annotated[bool, Meta(description="True after a rollback: pushes do not replace this release.")]


class VariablesSummary(TypedDict):
    """The newest version of an environment's variables."""

    version: int
    count: int


class UnfinishedDeployment(TypedDict):
    """The one deployment of an environment that is queued, deploying or running."""

    id: int
    status: Literal["queued", "deploying", "running"]


class WaitingForApproval(TypedDict):
    """The IDs of the newest deployment and the newest change of variables that wait for approval in an environment."""

    deployments: list[int]
    variable_changes: list[int]


class EnvironmentSettings(TypedDict):
    """The settings of an environment, which `PATCH` changes and `ETag` identifies."""

    name: str
    order: Annotated[int, Meta(description="Deployments are promoted to environments of a higher order.")]
    branch: Annotated[
        str | None, Meta(description="The branch that is deployed; null for the repository's branch.")
    ]
    window: Annotated[
        str | None,
        Meta(
            description="When deploys are allowed; null for any time.",
            examples=["mon,tue,wed,thu 09:00-16:00 Europe/Oslo"],
        ),
    ]
    approval: ApprovalSettings
    wake_on_request: Annotated[bool, Meta(description="True if a request wakes it from hibernation.")]


class EnvironmentDetails(EnvironmentDocument, EnvironmentSettings):
    """An environment with its settings, its lock, its live release, and its pending deployments and approvals."""

    number: Annotated[int, Meta(description="The numeric ID.")]
    project: ProjectSummary
    lock: LockDocument | None
    live: LiveDocument | None
    variables: VariablesSummary | None
    active_deployment: UnfinishedDeployment | None
    waiting: WaitingForApproval
    created_at: str


class ChangedEnvironment(EnvironmentDetails):
    """An environment after a change of its settings."""

    gated_previews: Annotated[
        list[str],
        Meta(
            description="The slugs of previews that have copies of its variables: their deploys now need approval too."
        ),
    ]


class ResumedEnvironment(EnvironmentDetails):
    """An environment to which pushes deploy again."""

    resumed: Annotated[bool, Meta(description="False if no rollback had paused pushes.")]


class RemovedCounts(TypedDict):
    """The number of rows that were removed together with an environment."""

    keys: int
    heartbeats: int
    queues: int
    canceled: Annotated[int, Meta(description="Canceled deployments that had waited for approval.")]


class RemovedEnvironmentDocument(TypedDict):
    """An environment that was removed. Its deployments and their logs are kept."""

    id: str
    name: str
    slug: str
    removed: RemovedCounts


def describe_settings(environment: Environment) -> EnvironmentSettings:
    """Return the settings that people change."""
    window = load_window(environment.deploy_window)
    return {
        "name": environment.name,
        "order": environment.position,
        "branch": environment.branch,
        "window": None if window is None else str(window),
        "approval": {
            "deploys": environment.deploys_need_approval,
            "variables": environment.variables_need_approval,
        },
        "wake_on_request": environment.wake_on_request,
    }


def select_settings(document: EnvironmentSettings) -> dict[str, Any]:
    """Return only the settings, from which the `ETag` is computed."""
    return {name: cast(Any, document)[name] for name in EnvironmentSettings.__annotations__}


def describe_lock(lock: EnvironmentLock, person: Person | None) -> LockDocument:
    """`person`: the person who set the lock."""
    return {
        "reason": lock.reason,
        "by": None if person is None else summarize_person(person),
        "since": format_time(lock.locked_at),
    }


async def read_details(session: AsyncSession, target: DeployTarget) -> EnvironmentDetails:
    """Return the whole document of one environment."""
    [document] = await list_details(session, [target])
    return document


async def list_details(session: AsyncSession, targets: Sequence[DeployTarget]) -> list[EnvironmentDetails]:
    """Return the whole documents of these environments of one account, in six queries for any number."""
    ids = [environment.id for environment, _ in targets]
    locks = await _read_locks(session, ids)
    live = await _read_live(session, ids)
    variables = await _read_variables(session, ids)
    active = await _read_active(session, ids)
    waiting = await _read_waiting(session, targets)
    return [
        {
            **describe_environment(environment),
            **describe_settings(environment),
            "number": environment.id,
            "project": summarize_project(project),
            "lock": locks.get(environment.id),
            "live": live.get(environment.id),
            "variables": variables.get(environment.id),
            "active_deployment": active.get(environment.id),
            "waiting": waiting[environment.id],
            "created_at": format_time(environment.created_at),
        }
        for environment, project in targets
    ]


class EnvironmentPage(NamedTuple):
    """A page of environments, and the sort key of its last one if more follow."""

    targets: Sequence[DeployTarget]
    last_key: str | None


async def list_environments(
    session: AsyncSession, project: Project, limit: int, after: str | None
) -> EnvironmentPage:
    """Return a page of the project's environments, in the order in which deployments are promoted.

    `after`: the sort key of the last environment of the page before.
    """
    query = (
        select(Environment)
        .where(Environment.project_id == project.id)
        .order_by(Environment.position, Environment.id)
        .limit(limit + 1)
    )
    if after is not None:
        position, number = (int(part) for part in after.split(":"))
        is_later = (Environment.position == position) & (Environment.id > number)
        query = query.where((Environment.position > position) | is_later)
    found = (await session.execute(query)).scalars().all()
    page = found[:limit]
    last_key = f"{page[-1].position}:{page[-1].id}" if len(found) > limit else None
    return EnvironmentPage([DeployTarget(environment, project) for environment in page], last_key)


async def _read_locks(session: AsyncSession, ids: Sequence[int]) -> dict[int, LockDocument]:
    query = (
        select(EnvironmentLock, Person)
        .outerjoin(Person, Person.id == EnvironmentLock.person_id)
        .where(EnvironmentLock.environment_id.in_(ids))
    )
    return {lock.environment_id: describe_lock(lock, person) for lock, person in await session.execute(query)}


async def _read_live(session: AsyncSession, ids: Sequence[int]) -> dict[int, LiveDocument]:
    query = (
        select(LiveRelease, Release.deployment_id, Release.revision)
        .join(Release, Release.id == LiveRelease.release_id)
        .where(LiveRelease.environment_id.in_(ids))
        # Deployers write the row in other transactions.
        .execution_options(populate_existing=True)
    )
    return {
        live.environment_id: {
            "deployment_id": deployment_id,
            "revision": revision,
            "since": format_time(live.since),
            "held": live.held,
        }
        for live, deployment_id, revision in await session.execute(query)
    }


async def _read_variables(session: AsyncSession, ids: Sequence[int]) -> dict[int, VariablesSummary]:
    """Return the newest variables of environments, without the sealed values, which are not needed here."""
    others = aliased(VariableSet)
    # Account scope: the environments of the outer query are of the account.
    newest = select(func.max(others.version)).where(others.environment_id == VariableSet.environment_id)
    query = select(VariableSet.environment_id, VariableSet.version, VariableSet.count).where(
        VariableSet.environment_id.in_(ids), VariableSet.version == newest.scalar_subquery()
    )
    return {
        environment_id: {"version": version, "count": count}
        for environment_id, version, count in await session.execute(query)
    }


async def _read_active(session: AsyncSession, ids: Sequence[int]) -> dict[int, UnfinishedDeployment]:
    query = select(Deployment.environment_id, Deployment.id, Deployment.status).where(
        Deployment.environment_id.in_(ids), Deployment.status.in_(ACTIVE_STATUSES)
    )
    return {
        environment_id: {"id": number, "status": cast(Any, status)}
        for environment_id, number, status in await session.execute(query)
        if environment_id is not None
    }


async def _read_waiting(
    session: AsyncSession, targets: Sequence[DeployTarget]
) -> dict[int, WaitingForApproval]:
    ids = [environment.id for environment, _ in targets]
    accounts = {project.account_id for _, project in targets}
    # Literals and the account, for the partial indexes.
    is_awaiting = Deployment.status == literal_column(f"'{DeploymentStatus.AWAITING_APPROVAL}'")
    deployments = select(Deployment.environment_id, Deployment.id).where(
        Deployment.account_id.in_(accounts), Deployment.environment_id.in_(ids), is_awaiting
    )
    changes = select(VariableChange.environment_id, VariableChange.id).where(
        VariableChange.environment_id.in_(ids), VariableChange.is_pending()
    )
    waiting_deployments = await _newest_by_environment(session, deployments.order_by(Deployment.id.desc()))
    waiting_changes = await _newest_by_environment(session, changes.order_by(VariableChange.id.desc()))
    return {
        environment_id: {
            "deployments": waiting_deployments[environment_id],
            "variable_changes": waiting_changes[environment_id],
        }
        for environment_id in ids
    }


async def _newest_by_environment(session: AsyncSession, query: Any) -> defaultdict[int, list[int]]:
    newest: defaultdict[int, list[int]] = defaultdict(list)
    for environment_id, number in await session.execute(query):
        if len(newest[environment_id]) < _MAX_WAITING:
            newest[environment_id].append(number)
    return newest

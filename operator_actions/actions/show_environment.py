"""Environments as an operator sees them: how they run, who may deploy to them, and what is live there."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.environments.locks import DeployLock, find_lock
from control_domain.environments.windows import load_window
from control_domain.projects.describe import describe_environment, summarize_project
from control_domain.projects.find import DeployTarget
from control_domain.tables.accounts import Person
from control_domain.tables.deployments import Deployment, LiveRelease, Release
from control_domain.tables.projects import Environment, EnvironmentLock, Project
from control_domain.tables.variables import VariableChange, VariableSet
from pipeline_contracts.deploy_states import ACTIVE_STATUSES, ChangeState, DeploymentStatus
from pipeline_contracts.times import format_time

_MOST_AWAITING = 20


async def list_environments(session: AsyncSession, project: Project | None) -> Sequence[dict[str, Any]]:
    """Every environment, or those of one project, in the order in which deployments are promoted."""
    query = (
        select(Environment, Project, EnvironmentLock, Person.email)
        .join(Project, Project.id == Environment.project_id)
        .outerjoin(EnvironmentLock, EnvironmentLock.environment_id == Environment.id)
        .outerjoin(Person, Person.id == EnvironmentLock.person_id)
        .order_by(Project.id, Environment.position, Environment.id)
    )
    if project is not None:
        query = query.where(Project.id == project.id)
    return [
        describe_target(
            DeployTarget(environment, project),
            None if lock is None else DeployLock(lock.reason, by, lock.locked_at),
        )
        for environment, project, lock, by in await session.execute(query)
    ]


async def show_environment(session: AsyncSession, target: DeployTarget) -> dict[str, Any]:
    """All of one: `live` is the release that it serves, `variables` its newest version, `active_deployment` the one
    that is not finished; each null where there is none. `held`: whether somebody rolled back to what is live."""
    return {
        **describe_target(target, await find_lock(session, target.environment)),
        **await _live(session, target.environment),
        "variables": await _variables(session, target.environment),
        "active_deployment": await _active(session, target.environment),
        "awaiting_approval": await _awaiting(session, target.environment),
    }


def describe_target(target: DeployTarget, lock: DeployLock | None) -> dict[str, Any]:
    """An environment as the public API has it, and how it is set."""
    environment, project = target
    return {
        **describe_environment(environment),
        "number": environment.id,
        "project": summarize_project(project),
        **describe_settings(environment),
        "lock": None if lock is None else describe_lock(lock),
        "created_at": format_time(environment.created_at),
    }


def describe_settings(environment: Environment) -> dict[str, Any]:
    """What `pharos environment set` changes."""
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


def describe_lock(lock: DeployLock) -> dict[str, Any]:
    """`by` is an e-mail address; null: an operator who named nobody."""
    return {"reason": lock.reason, "by": lock.by, "since": format_time(lock.since)}


async def _live(session: AsyncSession, environment: Environment) -> dict[str, Any]:
    query = (
        select(Release.deployment_id, Release.revision, LiveRelease.since, LiveRelease.held)
        .join(LiveRelease, LiveRelease.release_id == Release.id)
        .where(LiveRelease.environment_id == environment.id)
    )
    row = (await session.execute(query)).one_or_none()
    if row is None:
        return {"live": None, "held": False}
    live = {"deployment_id": row[0], "revision": row[1], "since": format_time(row[2])}
    return {"live": live, "held": row[3]}


async def _variables(session: AsyncSession, environment: Environment) -> dict[str, Any] | None:
    """Without the sealed text, which nobody needs here."""
    query = (
        select(VariableSet.version, VariableSet.count)
        .where(VariableSet.environment_id == environment.id)
        .order_by(VariableSet.version.desc())
        .limit(1)
    )
    row = (await session.execute(query)).one_or_none()
    return None if row is None else {"version": row[0], "count": row[1]}


async def _active(session: AsyncSession, environment: Environment) -> dict[str, Any] | None:
    query = select(Deployment.id, Deployment.status).where(
        Deployment.environment_id == environment.id, Deployment.status.in_(ACTIVE_STATUSES)
    )
    row = (await session.execute(query)).one_or_none()
    return None if row is None else {"id": row[0], "status": row[1]}


async def _awaiting(session: AsyncSession, environment: Environment) -> dict[str, Any]:
    """The numbers of the newest deployments, and that of the change of variables, that wait for a second person."""
    deployments = (
        select(Deployment.id)
        .where(
            Deployment.environment_id == environment.id,
            Deployment.status == DeploymentStatus.AWAITING_APPROVAL,
        )
        .order_by(Deployment.id.desc())
        .limit(_MOST_AWAITING)
    )
    change = select(func.max(VariableChange.id)).where(
        VariableChange.environment_id == environment.id, VariableChange.state == ChangeState.PENDING
    )
    return {
        "deployments": list((await session.execute(deployments)).scalars()),
        "variable_change": (await session.execute(change)).scalar_one_or_none(),
    }

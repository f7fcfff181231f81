"""Environments as an operator sees them: how they run, who may deploy to them, and what is live there."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.environments.describe import describe_environment
from control_domain.environments.locks import HeldLock, find_lock
from control_domain.environments.windows import window_of
from control_domain.projects.describe import name_project
from control_domain.projects.find import Place
from control_domain.tables.accounts import Person
from control_domain.tables.deployments import Deployment, LiveRelease, Release
from control_domain.tables.projects import Environment, EnvironmentLock, Project
from control_domain.tables.variables import VariableChange, VariableSet
from pipeline_contracts.deploy_states import ACTIVE, ChangeState, DeploymentStatus
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
        describe_place(
            Place(environment, project), None if lock is None else HeldLock(lock.reason, by, lock.locked_at)
        )
        for environment, project, lock, by in await session.execute(query)
    ]


async def show_environment(session: AsyncSession, place: Place) -> dict[str, Any]:
    """All of one: `live` is the release that it serves, `variables` its newest version, `active_deployment` the one
    that is not finished; each null where there is none. `held`: whether somebody rolled back to what is live."""
    return {
        **describe_place(place, await find_lock(session, place.environment)),
        **await _live(session, place.environment),
        "variables": await _variables(session, place.environment),
        "active_deployment": await _active(session, place.environment),
        "awaiting_approval": await _awaiting(session, place.environment),
    }


def describe_place(place: Place, lock: HeldLock | None) -> dict[str, Any]:
    """An environment as the public API has it, and how it is set."""
    environment, project = place
    return {
        **describe_environment(environment),
        "number": environment.id,
        "project": name_project(project),
        **describe_settings(environment),
        "lock": None if lock is None else describe_lock(lock),
        "created_at": format_time(environment.created_at),
    }


def describe_settings(environment: Environment) -> dict[str, Any]:
    """What `pharos environment set` changes."""
    window = window_of(environment.deploy_window)
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


def describe_lock(lock: HeldLock) -> dict[str, Any]:
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
        Deployment.environment_id == environment.id, Deployment.status.in_(ACTIVE)
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
    change = select(VariableChange.id).where(
        VariableChange.environment_id == environment.id, VariableChange.state == ChangeState.PENDING
    )
    return {
        "deployments": list((await session.execute(deployments)).scalars()),
        "variable_change": (await session.execute(change)).scalar_one_or_none(),
    }

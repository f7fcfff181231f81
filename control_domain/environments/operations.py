"""What is asked of an environment through the API: replicas, state, and that pushes deploy again. The deployer brings
about what is wanted."""

from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.database.statements import lock_row
from control_domain.projects.find import DeployTarget
from control_domain.tables.deployments import LiveRelease
from control_domain.tables.projects import Environment, Project
from control_domain.tables.runtime import EnvironmentLease
from pipeline_contracts.deploy_states import EnvironmentState, check_transition
from pipeline_contracts.errors import NotFound

MAX_REPLICAS = 20


async def scale_environment(
    session: AsyncSession, target: DeployTarget, replicas: int, actor: Actor, now: datetime
) -> None:
    """Want this many replicas, 1 to 20. Raises `NotFound` where the environment was removed meanwhile."""
    environment = target.environment
    await lock_environment_row(session, environment)
    details = {"from": environment.desired_replicas, "to": replicas}
    environment.desired_replicas = replicas
    subject = f"environment {environment.public_id}"
    record_audit_entry(session, actor, target.project.account_id, "environment.scale", subject, now, details)
    await session.flush()


async def change_environment_state(
    session: AsyncSession, target: DeployTarget, state: EnvironmentState, actor: Actor, now: datetime
) -> None:
    """Want the environment to run, or to hibernate; what it is already changes nothing. Raises `NotFound` where it was
    removed meanwhile."""
    environment = target.environment
    await lock_environment_row(session, environment)
    was = EnvironmentState(environment.state)
    if was is state:
        return
    check_transition(was, state)
    environment.state = state.value
    subject = f"environment {environment.public_id}"
    details = {"from": was.value, "to": state.value}
    record_audit_entry(session, actor, target.project.account_id, "environment.state", subject, now, details)
    await session.flush()


async def resume_pushes(session: AsyncSession, target: DeployTarget, actor: Actor, now: datetime) -> bool:
    """Let pushes deploy over the release that somebody has rolled back to; False where there is no such one, which
    changes nothing. Raises `NotFound` where the environment was removed meanwhile."""
    environment = target.environment
    # A deployer that switches to another release writes the same row.
    await lock_deployer_lease(session, environment)
    await lock_environment_row(session, environment)
    resumed = await session.execute(
        update(LiveRelease)
        .where(LiveRelease.environment_id == environment.id, LiveRelease.held)
        .values(held=False)
        .returning(LiveRelease.deployment_id)
        .execution_options(synchronize_session=False)
    )
    row = resumed.one_or_none()
    if row is None:
        return False
    subject, details = f"environment {environment.public_id}", {"deployment": row.deployment_id}
    record_audit_entry(session, actor, target.project.account_id, "environment.resume", subject, now, details)
    await session.flush()
    return True


async def wake_environment(session: AsyncSession, environment_id: int, actor: Actor, now: datetime) -> None:
    """Want an environment to run that hibernates and may be woken by requests; else nothing changes."""
    # Account scope: the proxy has found the environment by the host of a request.
    query = (
        select(Environment, Project)
        .join(Project, Project.id == Environment.project_id)
        .where(
            Environment.id == environment_id,
            Environment.state == EnvironmentState.HIBERNATED,
            Environment.wake_on_request,
        )
    )
    row = (await session.execute(query)).one_or_none()
    if row is not None:
        await change_environment_state(session, DeployTarget(*row), EnvironmentState.RUNNING, actor, now)


async def lock_environment_row(session: AsyncSession, environment: Environment) -> None:
    """Let nobody else change the environment or its variables until the end of the transaction.

    It gives `environment` the present settings: what was read before a body came may be half a minute old. Raises
    `NotFound` where it was removed since it was looked for.
    """
    if not await lock_row(session, Environment.position, Environment.id == environment.id):
        raise NotFound("The account has no such environment.")
    await session.refresh(environment)


async def lock_deployer_lease(session: AsyncSession, environment: Environment) -> None:
    """Let the environment's deployer write nothing until the end of the transaction.

    It holds its lease before anything else. Whoever ends what is its does the same, before `hold_environment`: on
    Postgres the two would wait crosswise.
    """
    query = select(EnvironmentLease.fence).where(EnvironmentLease.environment_id == environment.id)
    await session.execute(query.with_for_update())

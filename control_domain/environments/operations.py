"""What is asked of an environment through the API: replicas, state, and that pushes deploy again. The deployer brings
about what is wanted."""

from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.environments.hold import lock_deployer_lease, lock_environment_row
from control_domain.projects.find import DeployTarget
from control_domain.tables.deployments import LiveRelease
from control_domain.tables.projects import Environment, Project
from pipeline_contracts.deploy_states import EnvironmentState, check_transition

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

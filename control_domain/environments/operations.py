"""Operations on the desired state of environments: replicas, running or hibernated, and resumed pushes.

The deployer reconciles what runs with this state.
"""

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
    """Set the desired number of replicas, 1 to 20. Raises `NotFound` if the environment was removed meanwhile."""
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
    """Set the desired state; the present state changes nothing. Raises `NotFound` if the environment was removed
    meanwhile."""
    environment = target.environment
    await lock_environment_row(session, environment)
    former = EnvironmentState(environment.state)
    if former is state:
        return
    check_transition(former, state)
    environment.state = state.value
    subject = f"environment {environment.public_id}"
    details = {"from": former.value, "to": state.value}
    record_audit_entry(session, actor, target.project.account_id, "environment.state", subject, now, details)
    await session.flush()


async def resume_pushes(session: AsyncSession, target: DeployTarget, actor: Actor, now: datetime) -> bool:
    """Let pushes deploy again after a rollback. Return False and change nothing if no rollback holds them back.

    Raises `NotFound` if the environment was removed meanwhile.
    """
    environment = target.environment
    # A deployer that switches traffic to another release writes the same row.
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
    """Wake the environment if it is hibernated and may be woken by requests; otherwise do nothing."""
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
    """Lock the environment and its variables until the end of the transaction, and refresh `environment`.

    `environment` may have been read half a minute ago, before the body of the request arrived. Raises `NotFound` if it
    was removed meanwhile.
    """
    if not await lock_row(session, Environment.position, Environment.id == environment.id):
        raise NotFound("The account has no such environment.")
    await session.refresh(environment)


async def lock_deployer_lease(session: AsyncSession, environment: Environment) -> None:
    """Lock the deployer's lease of the environment, so that the deployer writes nothing until the end of the
    transaction.

    Deployers lock the lease before all other rows. Call this before `lock_environment_row`: in another order the two
    transactions would deadlock on Postgres.
    """
    query = select(EnvironmentLease.fence).where(EnvironmentLease.environment_id == environment.id)
    await session.execute(query.with_for_update())

"""What is asked of an environment through the API: replicas and state. The deployer brings about what is wanted."""

from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from control_api.audit.operations import Actor, record
from control_api.environments.hold import hold_environment
from control_api.projects.find import Place
from pipeline_contracts.deploy_states import EnvironmentState, check_move

MOST_REPLICAS = 20


async def scale(session: AsyncSession, place: Place, replicas: int, actor: Actor, now: datetime) -> None:
    """Want this many replicas, 1 to 20. Raises `NotFound` where the environment was removed meanwhile."""
    environment = place.environment
    await hold_environment(session, environment)
    details = {"from": environment.desired_replicas, "to": replicas}
    environment.desired_replicas = replicas
    subject = f"environment {environment.public_id}"
    record(session, actor, place.project.account_id, "environment.scale", subject, now, details)
    await session.flush()


async def change_state(
    session: AsyncSession, place: Place, state: EnvironmentState, actor: Actor, now: datetime
) -> None:
    """Want the environment to run, or to hibernate; what it is already changes nothing. Raises `NotFound` where it was
    removed meanwhile."""
    environment = place.environment
    await hold_environment(session, environment)
    was = EnvironmentState(environment.state)
    if was is state:
        return
    check_move(was, state)
    environment.state = state.value
    subject = f"environment {environment.public_id}"
    details = {"from": was.value, "to": state.value}
    record(session, actor, place.project.account_id, "environment.state", subject, now, details)
    await session.flush()

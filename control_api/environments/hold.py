"""Keeps others from changing an environment while one transaction does."""

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_api.projects.tables import Environment
from control_api.runtime.tables import EnvironmentLease
from pipeline_contracts.errors import NotFound


async def hold_environment(session: AsyncSession, environment: Environment) -> None:
    """Let nobody else change the environment or its variables until the end of the transaction.

    An update, because SQLite locks nothing when it reads. It gives `environment` the present settings: what was read
    before a body came may be half a minute old. Raises `NotFound` where it was removed since it was looked for.
    """
    held = await session.execute(
        update(Environment)
        .where(Environment.id == environment.id)
        .values(position=Environment.position)
        .returning(Environment.id)
        .execution_options(synchronize_session=False)
    )
    if held.scalar_one_or_none() is None:
        raise NotFound("The account has no such environment.")
    await session.refresh(environment)


async def hold_off_deployer(session: AsyncSession, environment: Environment) -> None:
    """Let the environment's deployer write nothing until the end of the transaction.

    It holds its lease before anything else. Whoever ends what is its does the same, before `hold_environment`: on
    Postgres the two would wait crosswise.
    """
    query = select(EnvironmentLease.fence).where(EnvironmentLease.environment_id == environment.id)
    await session.execute(query.with_for_update())

"""Keeps others from changing an environment while one transaction does."""

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.engine import lock_row
from control_domain.tables.projects import Environment
from control_domain.tables.runtime import EnvironmentLease
from pipeline_contracts.errors import NotFound


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

"""How many heartbeats and queues an account may have."""

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.tables.monitors import Heartbeat, Queue
from control_domain.tables.projects import Environment, Project
from pipeline_contracts.errors import Conflict

MAX_MONITORS = 10_000
"""Limit for each kind of monitor. One scan checks the heartbeats of all accounts, within 10 s for 100,000
heartbeats."""


async def check_number(
    session: AsyncSession, table: type[Heartbeat] | type[Queue], environment: Environment
) -> None:
    """Raise `Conflict` if the account of the environment has no room for one more heartbeat or queue.

    The limit need not be exact: concurrent requests may exceed it slightly.
    """
    account_id = select(Project.account_id).where(Project.id == environment.project_id).scalar_subquery()
    query = (
        select(func.count())
        .select_from(table)
        .join(Environment, Environment.id == table.environment_id)
        .join(Project, Project.id == Environment.project_id)
        .where(Project.account_id == account_id)
    )
    if (await session.execute(query)).scalar_one() >= MAX_MONITORS:
        kind = table.__tablename__
        raise Conflict(f"The account has {MAX_MONITORS:,} {kind}, which is the limit: remove some first.")

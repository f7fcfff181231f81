"""A migrated database, and the account that most tests use."""

import contextlib
from collections.abc import AsyncIterator
from datetime import datetime
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from control_domain.accounts.operations import create_account
from control_domain.database.engine import open_engine
from control_domain.database.migrations.upgrade import upgrade_database
from control_domain.projects.operations import create_environment, create_project
from control_domain.tables.accounts import Account
from control_domain.tables.projects import Environment, Project
from pipeline_contracts.rate_limits import RateLimit


class Acme(NamedTuple):
    """An account with one project, and its production environment."""

    account: Account
    project: Project
    environment: Environment


@contextlib.asynccontextmanager
async def migrated(url: str) -> AsyncIterator[AsyncEngine]:
    """Migrate a database to this version; yield an engine on it."""
    engine = open_engine(url)
    try:
        await upgrade_database(engine)
        yield engine
    finally:
        await engine.dispose()


async def make_acme(session: AsyncSession, now: datetime) -> Acme:
    """Create the account with a project and its production environment; it may send 10 events/s, 20 at once."""
    account = await create_account(session, "Acme", "acme", RateLimit(10, 20), now)
    project = await create_project(session, account, "Shop", "shop", now)
    environment = await create_environment(session, project, "Production", "production", "production", now)
    return Acme(account, project, environment)

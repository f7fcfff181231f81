"""Brings a database to the newest migration."""

from pathlib import Path

from sqlalchemy import Connection, inspect, text
from sqlalchemy.ext.asyncio import AsyncEngine

_FOLDER = Path(__file__).parent


def newest_revision() -> str:
    """The number of the last migration: their files sort by it."""
    return sorted(path.name for path in (_FOLDER / "versions").glob("[0-9]*.py"))[-1].partition("_")[0]


def _present_revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def _upgrade(connection: Connection) -> None:
    if _present_revision(connection) == newest_revision():
        return
    # Only where there is something to do: it takes 15 MB that a long-lived process would keep.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_FOLDER))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


async def upgrade_database(engine: AsyncEngine) -> None:
    """Run what is missing, in one transaction."""
    async with engine.begin() as connection:
        await connection.run_sync(_upgrade)

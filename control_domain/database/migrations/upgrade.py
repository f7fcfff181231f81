"""Brings a database to the newest migration."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from sqlalchemy import Connection, inspect, text
from sqlalchemy.ext.asyncio import AsyncEngine

from control_domain.database.errors import translate_errors
from control_domain.database.postgres import open_postgres_for_migrations
from pipeline_contracts.errors import StorageUnavailable

_FOLDER = Path(__file__).parent
# Any number that all versions agree on: upgrades of one database wait for each other at it.
_LOCK = 7_423_651_908
_WAIT_FOR_OTHERS = "SET LOCAL lock_timeout = '10min'"
# A table that others hold: requests queue up behind the upgrade for as long as it waits.
_WAIT_FOR_TABLES = "SET LOCAL lock_timeout = '10s'"


def newest_revision() -> str:
    """The number of the last migration: their files sort by it."""
    return sorted(path.name for path in (_FOLDER / "versions").glob("[0-9]*.py"))[-1].partition("_")[0]


def _present_revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def _upgrade(connection: Connection) -> None:
    _wait_for_other_upgrades(connection)
    present, newest = _present_revision(connection), newest_revision()
    if present == newest:
        return
    if present is not None and present > newest:
        # Revisions are numbers of four digits.
        raise StorageUnavailable(
            f"A newer version of Pharos has upgraded the control plane's database to revision {present}; this version "
            f"knows revisions up to {newest}. Start the newer version, or restore a backup from before the upgrade."
        )
    # Only where there is something to do: it takes 15 MB that a long-lived process would keep.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_FOLDER))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _wait_for_other_upgrades(connection: Connection) -> None:
    if connection.dialect.name == "sqlite":
        # Python's driver begins a transaction at the first INSERT only: tables would be made outside of it.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        return
    connection.exec_driver_sql(_WAIT_FOR_OTHERS)
    # Given up with the transaction, also when this process dies.
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    connection.exec_driver_sql(_WAIT_FOR_TABLES)


@asynccontextmanager
async def _engine_without_hurry(engine: AsyncEngine) -> AsyncIterator[AsyncEngine]:
    if engine.dialect.name != "postgresql":
        yield engine
        return
    own = open_postgres_for_migrations(engine)
    translate_errors(own)
    try:
        yield own
    finally:
        await own.dispose()


async def upgrade_database(engine: AsyncEngine) -> None:
    """Run what is missing, in one transaction. Several processes may do it at once: one does, the others wait.

    Raises `StorageUnavailable` where the database is away, a lock is not given in time, or a newer version has upgraded
    it; nothing was changed then.
    """
    async with _engine_without_hurry(engine) as own, own.begin() as connection:
        await connection.run_sync(_upgrade)

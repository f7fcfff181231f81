"""Upgrades a database to the newest migration."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from sqlalchemy import Connection, inspect, text
from sqlalchemy.ext.asyncio import AsyncEngine

from control_domain.database.errors import translate_errors
from control_domain.database.postgres import open_postgres_for_migrations
from pipeline_contracts.errors import StorageUnavailable

_FOLDER = Path(__file__).parent
# An arbitrary advisory lock that all versions share, so that upgrades of one database run one after the other.
_LOCK = 7_423_651_908
_WAIT_FOR_OTHERS = "SET LOCAL lock_timeout = '10min'"
# Short, because requests queue up behind an upgrade that waits for a locked table.
_WAIT_FOR_TABLES = "SET LOCAL lock_timeout = '10s'"


def newest_revision() -> str:
    """Return the number of the newest migration."""
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
    # Imported only when needed: Alembic takes 15 MB that a long-lived process would keep.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_FOLDER))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _wait_for_other_upgrades(connection: Connection) -> None:
    if connection.dialect.name == "sqlite":
        # The driver begins a transaction only at the first INSERT, so tables would be created outside of it.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        return
    connection.exec_driver_sql(_WAIT_FOR_OTHERS)
    # Released with the transaction, also if this process dies.
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    connection.exec_driver_sql(_WAIT_FOR_TABLES)


@asynccontextmanager
async def _engine_without_time_limits(engine: AsyncEngine) -> AsyncIterator[AsyncEngine]:
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
    """Run the missing migrations in one transaction. Of several processes at once, one runs them and the others wait.

    Raises `StorageUnavailable` if the database is unreachable, a lock is not acquired in time, or a newer version has
    upgraded it. Nothing was changed then.
    """
    async with _engine_without_time_limits(engine) as own, own.begin() as connection:
        await connection.run_sync(_upgrade)

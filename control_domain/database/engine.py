"""Opens the engine and the sessions of the control plane's database, Postgres or SQLite."""

import asyncio
import time
from typing import Any

import aiosqlite
from sqlalchemy import Connection, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine

from control_domain.database.errors import translate_errors
from control_domain.database.postgres import open_postgres
from pipeline_contracts.errors import StorageUnavailable

Sessions = async_sessionmaker[AsyncSession]
"""Opens sessions; each is its own transaction."""

# On an overloaded machine, each of several waiting writers holds the lock for a second or more.
_BUSY_SECONDS = 30
_RETRY_SECONDS = 0.02
_POSTGRES = ("postgresql", "postgres", "postgresql+asyncpg")


def open_engine(url: str) -> AsyncEngine:
    """Return an engine for `sqlite+aiosqlite:///…` or `postgresql://user:password@host/name?sslmode=…`.

    Does not connect yet. Raises `StorageUnavailable` for a URL that cannot be used; the message does not repeat it.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # The message of the parser may contain a part of the password.
        raise StorageUnavailable("The database URL cannot be used: it cannot be read.") from None
    if parsed.drivername in _POSTGRES:
        engine = open_postgres(parsed)
    elif parsed.drivername == "sqlite+aiosqlite":
        engine = create_async_engine(parsed)
        event.listen(engine.sync_engine, "connect", _prepare_sqlite)
        event.listen(engine.sync_engine, "savepoint", _begin_on_sqlite)
    else:
        raise StorageUnavailable("The database URL cannot be used: it has to begin with postgresql://.")
    translate_errors(engine)
    return engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={_BUSY_SECONDS * 1000}")
    connection.run_async(_enable_write_ahead_log)
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


async def _enable_write_ahead_log(connection: aiosqlite.Connection) -> None:
    """Switch the file to write-ahead logging, which the file then keeps.

    SQLite ignores its busy timeout for this switch, so retry while another process writes the file.
    """
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            async with connection.execute("PRAGMA journal_mode=WAL"):
                return
        except aiosqlite.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() >= deadline:
                raise
        await asyncio.sleep(_RETRY_SECONDS)


def _begin_on_sqlite(connection: Connection, _name: str) -> None:
    """Begin a write transaction before a savepoint.

    The driver begins transactions only before a write, and releasing a savepoint outside of one would commit.
    IMMEDIATE, because SQLite refuses at once to upgrade a read transaction after another process has written.
    """
    if not connection.connection.driver_connection.in_transaction:  # type: ignore[union-attr]
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def open_sessions(engine: AsyncEngine) -> Sessions:
    """Return a factory of sessions whose objects stay readable after the commit."""
    return async_sessionmaker(engine, expire_on_commit=False)

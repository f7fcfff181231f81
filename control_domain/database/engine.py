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
"""Opens sessions; each is a transaction of its own."""

_BUSY_SECONDS = 10
_AGAIN_SECONDS = 0.02
_POSTGRES = ("postgresql", "postgres", "postgresql+asyncpg")


def open_engine(url: str) -> AsyncEngine:
    """An engine for `sqlite+aiosqlite:///…` or `postgresql://user:password@host/name?sslmode=…`.

    Connects to nothing yet. Raises `StorageUnavailable`, which does not repeat the URL, for one that cannot be used.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # The parser's message may hold a piece of the password.
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
    connection.run_async(_write_ahead)
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


async def _write_ahead(connection: aiosqlite.Connection) -> None:
    """Keep a log written ahead, as the file is marked to from the first time on. That first time alone, who writes the
    file just then is not waited for by SQLite itself."""
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            async with connection.execute("PRAGMA journal_mode=WAL"):
                return
        except aiosqlite.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() >= deadline:
                raise
        await asyncio.sleep(_AGAIN_SECONDS)


def _begin_on_sqlite(connection: Connection, _name: str) -> None:
    """Begin the transaction that the savepoint is in: the driver does so before a write alone, and the end of a
    savepoint that is in none is a commit. As one that writes: SQLite would refuse a write behind a read at once where
    somebody else has written in between, and makes this one wait."""
    if not connection.connection.driver_connection.in_transaction:  # type: ignore[union-attr]
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def open_sessions(engine: AsyncEngine) -> Sessions:
    """Makes sessions whose objects stay readable after the commit."""
    return async_sessionmaker(engine, expire_on_commit=False)

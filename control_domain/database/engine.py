"""The engines, the declarative base and what the statements of all tables share."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import aiosqlite
from sqlalchemy import (
    ColumnElement,
    Connection,
    DateTime,
    Dialect,
    Index,
    MetaData,
    TypeDecorator,
    event,
    make_url,
    text,
    update,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import DeclarativeBase, InstrumentedAttribute
from sqlalchemy.schema import CreateIndex
from sqlalchemy.sql.compiler import DDLCompiler

from control_domain.database.errors import translate_errors
from control_domain.database.postgres import open_postgres
from pipeline_contracts.errors import StorageUnavailable

Sessions = async_sessionmaker[AsyncSession]
"""Opens sessions; each is a transaction of its own."""

# Names of constraints are part of the schema: a later migration has to be able to name them.
_NAMING = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
_BUSY_SECONDS = 10
_AGAIN_SECONDS = 0.02
_POSTGRES = ("postgresql", "postgres", "postgresql+asyncpg")


class Base(DeclarativeBase):
    """All tables of the control plane."""

    metadata = MetaData(naming_convention=_NAMING)


class UtcDateTime(TypeDecorator[datetime]):
    """A point in time, in UTC when it is read. SQLite keeps no zone: a time of another one is changed to UTC.

    Refuses a time without a zone (`ValueError`), which Postgres and SQLite would take for different ones.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time needs its zone")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def partial_index(name: str, *columns: str, condition: str, unique: bool = False) -> Index:
    """Return an index of the rows that satisfy `condition` (SQL), on both databases."""
    # Without `postgresql_where`: SQLAlchemy would import that dialect, 80 ms of CPU at each start on SQLite.
    return Index(name, *columns, unique=unique, sqlite_where=text(condition))


@compiles(CreateIndex, "postgresql")
def _create_index(create: CreateIndex, compiler: DDLCompiler, **options: Any) -> str:
    statement: str = compiler.visit_create_index(create, **options)  # type: ignore[no-untyped-call]
    options_of = create.element.dialect_options
    # Migrations give the condition to both databases.
    if options_of["postgresql"]["where"] is not None or options_of["sqlite"]["where"] is None:
        return statement
    return f"{statement} WHERE {options_of['sqlite']['where']}"


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


def insert_if_absent(
    session: AsyncSession, table: type[Base], values: Mapping[str, Any] | Sequence[Mapping[str, Any]]
) -> Any:
    """An `INSERT` of one or several rows, that does nothing where a row is in the way, and then returns none. Where
    another transaction is about to insert such a row, it waits for the end of that one."""
    return insert_into(session, table).values(values).on_conflict_do_nothing()


def insert_into(session: AsyncSession, table: type[Base]) -> Any:
    """An `INSERT` of the session's database, which can say what becomes of a row that is in the way."""
    if session.get_bind().dialect.name == "postgresql":
        # Imported here because SQLite does not need it; on Postgres the engine has loaded it already.
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)
    return sqlite.insert(table)


async def lock_row(
    session: AsyncSession, kept: InstrumentedAttribute[Any], *conditions: ColumnElement[bool]
) -> bool:
    """Let nobody else change the row that meets the conditions until the end of the transaction; False where there is
    none. `kept` is any column of it that is part of no key, and stays what it is.

    An update, because SQLite locks nothing when it reads.
    """
    held = await session.execute(
        update(kept.class_)
        .where(*conditions)
        .values({kept: kept})
        .returning(kept)
        .execution_options(synchronize_session=False)
    )
    return held.first() is not None


async def use_snapshot(session: AsyncSession) -> None:
    """Give all reads of the session one snapshot, taken at the first read. Call this before any other statement, and do
    not write in the session."""
    if session.get_bind().dialect.name == "postgresql":
        await session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
    else:
        # The driver begins a transaction only before a write.
        await session.execute(text("BEGIN"))


def open_sessions(engine: AsyncEngine) -> Sessions:
    """Makes sessions whose objects stay readable after the commit."""
    return async_sessionmaker(engine, expire_on_commit=False)

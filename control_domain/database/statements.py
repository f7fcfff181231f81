"""Statements that work on both databases: inserts with conflicts, row locks, snapshots, and changes of a status."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import ColumnElement, text, update
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from control_domain.database.base import Base
from pipeline_contracts.deploy_states import ForbiddenTransition, State, check_transition


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


class RowWithStatus(Protocol):
    """A row of a table of what goes from state to state."""

    id: Any
    status: Any


async def move_status(session: AsyncSession, row: RowWithStatus, to: State, **values: Any) -> None:
    """Give the row this status, and `values`. Raises `ForbiddenTransition` for a move that the table of states does
    not have, and where somebody else has moved the row since it was read."""
    table, kind = type(row), type(to)
    was = kind(row.status)
    check_transition(was, to)
    # What was read is part of the condition: of two who move it at once, one wins.
    moved = await session.execute(
        update(table)
        .where(table.id == row.id, table.status == was.value)
        .values(status=to.value, **values)
        .returning(table.id)
        .execution_options(synchronize_session=False)
    )
    is_moved = moved.scalar_one_or_none() is not None
    await session.refresh(row)
    if not is_moved:
        raise ForbiddenTransition(kind(row.status), to)

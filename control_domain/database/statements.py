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
    """Return an `INSERT … ON CONFLICT DO NOTHING` of one or several rows; `RETURNING` has only the inserted rows.

    It waits for the end of a transaction that has inserted a conflicting row.
    """
    return dialect_insert(session, table).values(values).on_conflict_do_nothing()


def dialect_insert(session: AsyncSession, table: type[Base]) -> Any:
    """Return an `INSERT` in the dialect of the session's database, which supports `ON CONFLICT`."""
    if session.get_bind().dialect.name == "postgresql":
        # Imported here because SQLite does not need it; on Postgres the engine has loaded it already.
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)
    return sqlite.insert(table)


async def lock_row(
    session: AsyncSession, column: InstrumentedAttribute[Any], *conditions: ColumnElement[bool]
) -> bool:
    """Lock the row that meets the conditions until the end of the transaction. Return False if there is none.

    An UPDATE of `column` with its own value, because SQLite does not lock rows on reads; `column` must be part of no
    key.
    """
    locked = await session.execute(
        update(column.class_)
        .where(*conditions)
        .values({column: column})
        .returning(column)
        .execution_options(synchronize_session=False)
    )
    return locked.first() is not None


async def use_snapshot(session: AsyncSession) -> None:
    """Give all reads of the session one snapshot, taken at the first read. Call this before any other statement, and do
    not write in the session."""
    if session.get_bind().dialect.name == "postgresql":
        await session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
    else:
        # The driver begins a transaction only before a write.
        await session.execute(text("BEGIN"))


class RowWithStatus(Protocol):
    """A row with a status of a state machine."""

    id: Any
    status: Any


async def move_status(session: AsyncSession, row: RowWithStatus, to: State, **values: Any) -> None:
    """Change the status of the row, and its columns in `values`. The only way to change a status.

    Raises `ForbiddenTransition` for a transition that the state machine does not allow, and if another transaction has
    changed the status since the row was read.
    """
    table, kind = type(row), type(to)
    former = kind(row.status)
    check_transition(former, to)
    # The status that was read is a condition: of two concurrent changes, one wins.
    moved = await session.execute(
        update(table)
        .where(table.id == row.id, table.status == former.value)
        .values(status=to.value, **values)
        .returning(table.id)
        .execution_options(synchronize_session=False)
    )
    is_moved = moved.scalar_one_or_none() is not None
    await session.refresh(row)
    if not is_moved:
        raise ForbiddenTransition(kind(row.status), to)

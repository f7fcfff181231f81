"""The one way in which a row with a status gets its next one."""

from typing import Any, Protocol

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession

from pipeline_contracts.deploy_states import ForbiddenMove, State, check_move


class RowWithStatus(Protocol):
    """A row of a table of what goes from state to state."""

    id: Any
    status: Any


async def move_status(session: AsyncSession, row: RowWithStatus, to: State, **values: Any) -> None:
    """Give the row this status, and `values`. Raises `ForbiddenMove` for a move that the table of states does not have,
    and where somebody else has moved the row since it was read."""
    table, kind = type(row), type(to)
    was = kind(row.status)
    check_move(was, to)
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
        raise ForbiddenMove(kind(row.status), to)

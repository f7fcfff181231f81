"""Old rows of tables whose times have no index."""

from datetime import datetime

from sqlalchemy import ColumnElement, select, true
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute


async def is_older(
    session: AsyncSession,
    number: InstrumentedAttribute[int],
    at: InstrumentedAttribute[datetime],
    before: datetime,
) -> ColumnElement[bool]:
    """Return the condition that a row is older than the first one that is not older than `before`.

    The IDs (`number`) are in the order of the times, and only the times have no index: this reads old rows alone.
    """
    first = await session.scalar(select(number).where(at >= before).order_by(number).limit(1))
    return true() if first is None else number < first

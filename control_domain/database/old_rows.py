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
    """Return the condition that a row precedes the first row that is not older than `before`.

    The IDs (`number`) have the same order as the times, which have no index, so this reads only old rows.
    """
    first = await session.scalar(select(number).where(at >= before).order_by(number).limit(1))
    return true() if first is None else number < first

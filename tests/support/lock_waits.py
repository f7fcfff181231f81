"""Waits until a concurrent change waits for a lock."""

import asyncio
from typing import Any, Final

from sqlalchemy import text

from control_domain.database.engine import Sessions

_WAITING: Final = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


async def ends_or_waits(sessions: Sessions, task: "asyncio.Task[Any]") -> None:
    """Wait until the task has ended, or a transaction waits for a lock of this database."""
    async with asyncio.timeout(60):
        while not task.done():
            async with sessions() as session:
                if session.get_bind().dialect.name == "sqlite":
                    # SQLite does not show locks. This leaves time to read, or to begin to wait for the writer.
                    return await asyncio.sleep(0.05)
                if (await session.execute(_WAITING)).scalar_one():
                    return
            await asyncio.sleep(0.01)

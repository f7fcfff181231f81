"""Tells the key directory all that the edges need to know."""

from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from control_api.projects.operations import live_ingest_keys
from storage_backends.key_directory.interface import KeyDirectory


async def publish_keys(
    sessions: async_sessionmaker[AsyncSession], directory: KeyDirectory, now: datetime
) -> int:
    """Publish every live key; gives their number. Done at each start, so that a directory may be lost."""
    async with sessions() as session:
        entries = await live_ingest_keys(session, now)
    for entry in entries:
        await directory.publish(entry)
    return len(entries)

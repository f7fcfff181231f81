"""The size of the control database, and of the embedded event log."""

from pathlib import Path
from typing import Literal

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

# The file of the embedded log in the data folder.
_LOG_FILE = "event-log.sqlite"
_SUFFIXES = ("", "-wal", "-shm")


async def measure_database(session: AsyncSession) -> tuple[Literal["sqlite", "postgresql"], int]:
    """Return the engine of the control database, and its size in bytes."""
    connection = await session.connection()
    if connection.dialect.name == "sqlite":
        pages = (await connection.execute(text("PRAGMA page_count"))).scalar_one()
        return "sqlite", pages * (await connection.execute(text("PRAGMA page_size"))).scalar_one()
    size = (await connection.execute(text("SELECT pg_database_size(current_database())"))).scalar_one()
    return "postgresql", int(size)


def measure_event_log(data_folder: Path | None) -> int | None:
    """Return the bytes of the embedded event log's files; None if the log is a server. Blocks on the file system."""
    if data_folder is None:
        return None
    files = (data_folder / f"{_LOG_FILE}{suffix}" for suffix in _SUFFIXES)
    return sum(file.stat().st_size for file in files if file.exists())

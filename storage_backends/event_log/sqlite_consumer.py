"""The consumer of the embedded event log."""

import asyncio
import sqlite3

from pipeline_contracts.records import LogRecord, Position
from storage_backends.event_log.sqlite import SqliteEventLog
from storage_backends.event_log.sqlite_frames import remove_frames


class SqliteLogConsumer:
    """The only consumer of a group on one topic of a `SqliteEventLog`. It removes records that all groups have
    consumed."""

    # The only partition always belongs to this consumer.
    claim_seconds = 5.0

    def __init__(self, log: SqliteEventLog, group: str, topic: str) -> None:
        self._log = log
        self._group = group
        self._topic = topic
        self._empty_from = -1
        """The offset at which the last read found no record. -1 if records may have been appended since then."""

    @property
    def log_id(self) -> str:
        return self._log.log_id

    async def claim(self) -> dict[int, Position]:
        # Another process may have appended records, to replay dead letters.
        self._empty_from = -1
        row = await self._log.call(self._read_position)
        return {0: Position(row[0], row[1]) if row else Position(0)}

    def _read_position(self, connection: sqlite3.Connection) -> tuple[int, int | None] | None:
        row: tuple[int, int | None] | None = connection.execute(
            "SELECT next_offset, plan_end FROM positions WHERE consumer_group = ? AND topic = ?",
            (self._group, self._topic),
        ).fetchone()
        return row

    async def read(
        self, partition: int, start: int, end: int | None, max_bytes: int, wait: float
    ) -> list[LogRecord]:
        appended = self._log.appended_event(self._topic)
        records: list[LogRecord] = []
        if appended.is_set() or start != self._empty_from:
            records = await self._look(appended, start, max_bytes)
        if not records and wait > 0:
            try:
                async with asyncio.timeout(wait):
                    await appended.wait()
            except TimeoutError:
                return []
            records = await self._look(appended, start, max_bytes)
        if end is not None:
            records = [record for record in records if record.offset < end]
        return records

    async def _look(self, appended: asyncio.Event, start: int, max_bytes: int) -> list[LogRecord]:
        appended.clear()
        # Reset this before the read: a read that finds records, or that fails, does not show where the records end.
        self._empty_from = -1
        records = await self._log.read_frames(self._topic, start, max_bytes)
        if not records:
            self._empty_from = start
        return records

    async def commit(self, partition: int, position: Position) -> None:
        await self._log.call(lambda connection: self._write_position(connection, position))

    def _write_position(self, connection: sqlite3.Connection, position: Position) -> None:
        connection.execute(
            "INSERT INTO positions (consumer_group, topic, next_offset, plan_end) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (consumer_group, topic) "
            "DO UPDATE SET next_offset = excluded.next_offset, plan_end = excluded.plan_end",
            (self._group, self._topic, position.next_offset, position.plan_end),
        )
        if position.plan_end is not None:
            return
        # Remove the records that all groups have consumed. A frame that is consumed only in part stays.
        (passed,) = connection.execute(
            "SELECT min(next_offset) FROM positions WHERE topic = ?", (self._topic,)
        ).fetchone()
        remove_frames(connection, self._topic, passed)
        # SQLite frees one page per step of the statement, and `fetchall` runs all steps.
        connection.execute("PRAGMA incremental_vacuum(64)").fetchall()

    async def end(self, partition: int) -> int:
        return int(await self._log.call(self._read_end))

    def _read_end(self, connection: sqlite3.Connection) -> int:
        row = connection.execute("SELECT next_offset FROM topics WHERE topic = ?", (self._topic,)).fetchone()
        return row[0] if row else 0

    async def backlog(self) -> int:
        return int(await self._log.call(self._count_backlog))

    def _count_backlog(self, connection: sqlite3.Connection) -> int:
        position = self._read_position(connection)
        return self._read_end(connection) - (position[0] if position else 0)

    async def close(self) -> None:
        return None

"""Readiness of a loop in which a call hangs without an error."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from consumers import loop as loop_module
from consumers.assemble import ignore_step
from consumers.chunk import ChunkLimits
from consumers.insert_lease import StoreClock
from consumers.loop import ConsumerLoop
from consumers.metrics import ConsumerMetrics
from consumers.transforms.telemetry_topic import TelemetryTopic
from loadtests.bench.null_column_store import NullColumnStore
from pipeline_contracts import topics
from pipeline_contracts.records import LogRecord, Position
from storage_backends.column_store.interface import Lines
from storage_backends.event_log.sqlite import SqliteEventLog, open_sqlite_log
from storage_backends.event_log.sqlite_consumer import SqliteLogConsumer
from tests.support.telemetry_records import append_batch


class HangingStore(NullColumnStore):
    """An insert returns only after `answered` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.answered = asyncio.Event()

    async def insert(self, table: str, lines: Lines, rows: int, token: str, before: int = 0) -> None:
        self.asked.set()
        await self.answered.wait()
        await super().insert(table, lines, rows, token, before)


class HangingConsumer(SqliteLogConsumer):
    """The first claim or the first read hangs."""

    def __init__(self, log: SqliteEventLog, hangs_in: str) -> None:
        super().__init__(log, "group", topics.TELEMETRY)
        self._hangs_in = hangs_in
        self.asked = asyncio.Event()
        self.answered = asyncio.Event()

    async def _hang(self, name: str) -> None:
        if name == self._hangs_in:
            self.asked.set()
            await self.answered.wait()

    async def claim(self) -> dict[int, Position]:
        await self._hang("claim")
        return await super().claim()

    async def read(
        self, partition: int, start: int, end: int | None, max_bytes: int, wait: float
    ) -> list[LogRecord]:
        await self._hang("read")
        return await super().read(partition, start, end, max_bytes, wait)


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteEventLog]:
    log = await open_sqlite_log(tmp_path / "log.sqlite", 10**8)
    yield log
    await log.close()


@pytest.mark.parametrize(
    ("hangs_in", "expected"),
    [
        ("claim", f"{topics.TELEMETRY}: nothing has moved"),
        ("read", f"{topics.TELEMETRY}/0: nothing has moved"),
        ("insert", f"{topics.TELEMETRY}/0: nothing has moved"),
    ],
)
async def test_readiness_names_the_step_that_hangs(log: SqliteEventLog, hangs_in: str, expected: str) -> None:
    await append_batch(log, "env_1", "1", [{"type": "log", "id": "a"}])
    store, consumer = HangingStore(), HangingConsumer(log, hangs_in)
    hanging: HangingStore | HangingConsumer = store if hangs_in == "insert" else consumer
    if hanging is consumer:
        store.answered.set()
    loop = ConsumerLoop(
        consumer=consumer,
        log=log,
        store=store,
        clock=StoreClock(store),
        transform=TelemetryTopic(),
        limits=ChunkLimits(rows=1000, bytes=10**6, seconds=0.02),
        metrics=ConsumerMetrics(topics.TELEMETRY),
        stop=asyncio.Event(),
        on_step=ignore_step,
        draining=True,
    )
    async with asyncio.timeout(60):
        working = asyncio.create_task(loop.run())
        await hanging.asked.wait()
        assert loop.failure_reason is None
        # Move the beginning of the hanging step into the past.
        place = None if hangs_in == "claim" else 0
        loop._step_began[place] -= loop_module._STALLED_SECONDS
        told = loop.failure_reason
        hanging.answered.set()
        await working
    assert told is not None and told.startswith(expected)
    assert store.rows
    assert loop._step_began.keys() <= {None}

"""A consumer that is frozen at any step, for any time, repeats and loses no rows. The loop is the real one. Log and
store are models with simulated clocks, so that hours pass immediately.
"""

import asyncio
import itertools
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

import consumers.loop
from consumers.chunk import Chunk, ChunkLimits, ChunkRows, RecordRows, RowsOnly
from consumers.insert_lease import LEASE_SECONDS, StoreClock
from consumers.loop import ConsumerLoop
from consumers.metrics import ConsumerMetrics
from pipeline_contracts.errors import InsertTooLate, PartitionLost
from pipeline_contracts.records import LogRecord, Position
from storage_backends.column_store.interface import Lines, QueryResult

_TABLES = ("pharos.first", "pharos.second")
_STEPS = (
    "asking the time",
    "before plan",
    "committing the plan",
    "committed the plan",
    "after plan",
    "before insert pharos.first",
    "sending pharos.first",
    "sent pharos.first",
    "sending pharos.second",
    "sent pharos.second",
    "before commit",
    "committed the end",
)


@dataclass
class _World:
    """Shared state of all consumers: a partition of a log with its owner, and a store with its clock."""

    records: int = 12
    now: float = 1_800_000_000.0
    position: Position = Position(0)
    owner: Any = None
    stored: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    tokens: set[str] = field(default_factory=set)


class _Consumer:
    """A consumer process: its group membership, its connection to the store, its monotonic clock."""

    log_id = "model"

    def __init__(self, world: _World, freeze_at: str = "", from_offset: int = 0, chunk_rows: int = 2) -> None:
        self.world = world
        self.monotonic = 5.0
        self.frozen, self.resume, self.idle = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._victim = bool(freeze_at)
        self._freeze_at = freeze_at
        self._from_offset = from_offset
        self._reported_loss = False
        self.loop = ConsumerLoop(
            consumer=self,
            log=None,  # type: ignore[arg-type]  # No dead letters in this test.
            store=self,
            clock=StoreClock(self, monotonic=lambda: self.monotonic),
            transform=_Transform(),
            limits=ChunkLimits(rows=chunk_rows, bytes=10**6, seconds=0.0),
            metrics=ConsumerMetrics("model"),
            stop=asyncio.Event(),
            on_step=self.step,
            draining=True,
        )

    async def step(self, name: str) -> None:
        if name == self._freeze_at and self.world.position.next_offset >= self._from_offset:
            self._freeze_at = ""
            self.frozen.set()
            await self.resume.wait()

    def _require_ownership(self) -> None:
        if self.world.owner is not self:
            raise PartitionLost("the partition is another consumer's")

    # The log.

    claim_seconds = 0.5

    async def claim(self) -> Mapping[int, Position]:
        if self.world.owner is self:
            return {0: self.world.position}
        if not self._reported_loss:
            self._reported_loss = True
            self._require_ownership()
        self.idle.set()
        return {}

    async def read(
        self, partition: int, start: int, end: int | None, max_bytes: int, wait: float
    ) -> Sequence[LogRecord]:
        self._require_ownership()
        last = self.world.records if end is None else end
        return [LogRecord(n, b"", b"", b"") for n in range(start, last)]

    async def commit(self, partition: int, position: Position) -> None:
        committed_part = "end" if position.plan_end is None else "plan"
        await self.step(f"committing the {committed_part}")
        self._require_ownership()
        self.world.position = position
        await self.step(f"committed the {committed_part}")

    async def end(self, partition: int) -> int:
        self._require_ownership()
        # The victim's records are appended after its claim, so it need not check what is stored.
        return 0 if self._victim else self.world.records

    async def backlog(self) -> int:
        return 0

    # The store.

    async def insert(self, table: str, lines: Lines, rows: int, token: str, before: int = 0) -> None:
        await self.step(f"sending {table}")
        if before and self.world.now >= before:
            raise InsertTooLate("too late")
        assert isinstance(lines, bytes)
        if token not in self.world.tokens:
            self.world.tokens.add(token)
            self.world.stored[table].update(int(line) for line in lines.split())
        await self.step(f"sent {table}")

    async def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> QueryResult:
        if "now_ms" in sql:
            read_ms = int(1000 * self.world.now)
            await self.step("asking the time")
            return QueryResult(("now_ms",), [[read_ms]])
        bound = dict(parameters or {})
        stored = self.world.stored[f"{bound['database']}.{bound['table']}"]
        present = [n for n in range(bound["first"], bound["past_last"]) if stored[n]]
        return QueryResult(("offsets", "rows"), [[present, [1] * len(present)]])

    async def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        raise AssertionError("the loop runs no statements")

    async def close(self) -> None:
        return None


class _Transform(RowsOnly):
    topic = "model"

    def weight(self, record: LogRecord) -> tuple[int, int]:
        return 1, 0

    async def make_rows(self, chunk: Chunk, store: Any) -> ChunkRows:
        parts = [RecordRows(record.offset, b"%d\n" % record.offset, 1) for record in chunk.records]
        return ChunkRows(tables={table: list(parts) for table in _TABLES})


async def _drain(consumer: _Consumer) -> None:
    running = asyncio.create_task(consumer.loop.run())
    await asyncio.wait({running}, timeout=20)
    assert running.done(), "records are left"


@dataclass(frozen=True)
class _Case:
    step: str
    from_offset: int
    """The store's time is unknown at the first chunk."""
    seconds: float
    machine_suspended: bool
    """True if the machine's monotonic clock stands still too."""
    taken_over: bool
    rows_expired: bool


async def _freeze(case: _Case) -> None:
    world = _World()
    victim = world.owner = _Consumer(world, case.step, case.from_offset)
    running = asyncio.create_task(_drain(victim))
    await victim.frozen.wait()
    world.now += case.seconds
    if not case.machine_suspended:
        victim.monotonic += case.seconds
    if case.taken_over:
        world.owner = _Consumer(world)
        await _drain(world.owner)
        if case.seconds > LEASE_SECONDS:
            # So many inserts may have passed that all tokens are forgotten and the oldest rows have expired.
            world.tokens.clear()
            if case.rows_expired:
                for below, table in enumerate(_TABLES, 3):
                    for n in range(below):
                        del world.stored[table][n]
                world.position = Position(0)
                world.owner = _Consumer(world, chunk_rows=5)
                await _drain(world.owner)
                world.tokens.clear()
    victim.resume.set()
    if case.taken_over:
        await victim.idle.wait()
        victim.loop.stop.set()
    await running
    assert world.position == Position(world.records)
    for table in _TABLES:
        assert world.stored[table] == Counter(range(world.records)), table


async def test_a_frozen_consumer_stores_no_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers.loop, "_FIRST_PAUSE", 0.0)
    for step, from_offset, seconds, machine_suspended, (taken_over, rows_expired) in itertools.product(
        _STEPS,
        (0, 4),
        (0.0, LEASE_SECONDS / 2 + 1, LEASE_SECONDS - 1, LEASE_SECONDS + 1, 10_000.0),
        (False, True),
        ((False, False), (True, False), (True, True)),
    ):
        if step == "asking the time" and from_offset:
            continue
        case = _Case(step, from_offset, seconds, machine_suspended, taken_over, rows_expired)
        try:
            await _freeze(case)
        except AssertionError as error:
            raise AssertionError(case) from error

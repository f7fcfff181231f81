"""The loop of a consumer: take, plan, insert, commit.

A chunk's bounds are written down before it is inserted. Whoever owns the partition next carries out exactly
that chunk first, so that a crash at any point leaves each record stored once.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from consumers.chunk import Chunk, ChunkLimits, OnStep, Transform
from consumers.dead_letters import bury
from consumers.insert_chunk import insert_chunk
from consumers.insert_lease import InsertLease, LeasedStore, StoreClock
from consumers.metrics import ConsumerMetrics
from consumers.take_chunk import READ_BYTES, take_new, take_planned
from pipeline_contracts.errors import PartitionLost, RecordsGone, StorageUnavailable
from pipeline_contracts.records import Position
from storage_backends.column_store.interface import ColumnStore
from storage_backends.event_log.interface import EventLog, LogConsumer

logger = logging.getLogger(__name__)

_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 5.0
_CLAIM_SECONDS = 0.5
# Chunks in work at once: they overlap the waits for the store, and bound the memory that chunks take.
_CHUNKS_AT_ONCE = 4
_TELL_MS = 1000
# Readiness reports a partition that is at the same step for longer than this. No engine may take that long to respond.
_STILL_SECONDS = 180.0


@dataclass(slots=True)
class ConsumerLoop:
    """One consumer on one topic, a worker for each of its partitions. `run` until `stop` is set."""

    consumer: LogConsumer
    log: EventLog
    store: ColumnStore
    clock: StoreClock
    transform: Transform
    limits: ChunkLimits
    metrics: ConsumerMetrics
    stop: asyncio.Event
    on_step: OnStep
    draining: bool = False
    """Set it to let `run` end by itself once nothing is left to take."""
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_CHUNKS_AT_ONCE))
    _faults: dict[int | None, str] = field(default_factory=dict)
    _told_ms: dict[int, int] = field(default_factory=dict)
    _moved: dict[int | None, float] = field(default_factory=dict)
    """When each worker, and the claiming of partitions (None), began its present step; `time.monotonic`."""

    @property
    def failing(self) -> str | None:
        """Why nothing moves now, for the readiness answer; None while all is well."""
        now = time.monotonic()
        for partition, since in self._moved.items():
            if now - since > _STILL_SECONDS:
                place = self.transform.topic if partition is None else f"{self.transform.topic}/{partition}"
                return self._faults.get(partition, f"{place}: nothing has moved for {now - since:.0f} s")
        return next(iter(self._faults.values()), None)

    async def run(self) -> None:
        """Work through all partitions until told to stop; what is under way is finished first."""
        workers: dict[int, asyncio.Task[bool]] = {}
        try:
            while not self.stop.is_set():
                self._moved[None] = time.monotonic()
                try:
                    claimed = await self.consumer.claim()
                except PartitionLost:
                    logger.info("%s: the partitions are handed out anew", self.transform.topic)
                    # Each ends at its next read or commit. Two must never work on one partition.
                    await _ended(workers)
                except StorageUnavailable as error:
                    await self._pause(None, error, _FIRST_PAUSE)
                except Exception as error:
                    logger.exception("%s: the loop failed", self.transform.topic)
                    self.metrics.failures += 1
                    await self._pause(None, error, _LONGEST_PAUSE)
                else:
                    self._faults.pop(None, None)
                    if self.draining and claimed and all(_drained(workers.get(p)) for p in claimed):
                        return
                    self._keep_working(workers, claimed)
                    if workers:
                        await asyncio.wait(
                            workers.values(), timeout=_CLAIM_SECONDS, return_when=asyncio.FIRST_COMPLETED
                        )
                    else:
                        await self._wait(_CLAIM_SECONDS)
        finally:
            await _ended(workers)

    def _keep_working(
        self, workers: dict[int, "asyncio.Task[bool]"], claimed: Mapping[int, Position]
    ) -> None:
        for partition, position in claimed.items():
            worker = workers.get(partition)
            if worker is None or worker.done():
                workers[partition] = asyncio.create_task(
                    self._work(partition, position), name=f"{self.transform.topic}/{partition}"
                )
                workers[partition].add_done_callback(partial(self._forget_step, partition))

    def _forget_step(self, partition: int, worker: "asyncio.Task[bool]") -> None:
        self._moved.pop(partition, None)

    async def _work(self, partition: int, position: Position) -> bool:
        """Chunk after chunk of one partition; True when it ended because nothing is left."""
        tried_below: int | None = None
        while not self.stop.is_set():
            self._moved[partition] = time.monotonic()
            try:
                if tried_below is None:
                    # The group's position may lie before what is stored (it was reset, or the brokers have
                    # forgotten it). Others can only have inserted what the log had when the partition became ours:
                    # a plan is committed first, and only by the partition's owner.
                    tried_below = await self.consumer.end(partition)
                position, moved = await self._advance(partition, position, tried_below)
            except PartitionLost as error:
                logger.info("%s/%d: left to another consumer: %s", self.transform.topic, partition, error)
                self._faults.pop(partition, None)
                return False
            except StorageUnavailable as error:
                await self._pause(partition, error, _FIRST_PAUSE)
            except Exception as error:
                # A fault of ours. What was planned stays planned; look again from what is written down.
                logger.exception("%s/%d: the worker failed", self.transform.topic, partition)
                self.metrics.failures += 1
                await self._pause(partition, error, _LONGEST_PAUSE)
                return False
            else:
                if self.draining and not moved:
                    return True
        return False

    async def _advance(self, partition: int, position: Position, tried_below: int) -> tuple[Position, bool]:
        """Work on the next chunk: (position after it, whether there was one). Records below `tried_below` may be stored
        already."""
        if position.plan_end is not None:
            return await self._carry_out_plan(partition, position.next_offset, position.plan_end), True
        try:
            first = await self.consumer.read(
                partition, position.next_offset, None, READ_BYTES, self.limits.seconds
            )
        except RecordsGone as gone:
            logger.error("%s: %s", self.transform.topic, gone)
            return Position(gone.next_offset), True
        self._faults.pop(partition, None)
        if not first:
            await self._tell_caught_up(partition, position.next_offset)
            return position, False
        deadline = time.monotonic() + self.limits.seconds
        async with self._slots:
            chunk = await take_new(self.consumer, partition, first, self.transform, self.limits, deadline)
            await self.on_step("before plan")
            lease = self._lease(partition, chunk)
            await lease.commit_plan()
            await self.on_step("after plan")
            return await self._finish(partition, chunk, lease, tried_before=chunk.start < tried_below), True

    async def _tell_caught_up(self, partition: int, next_offset: int) -> None:
        now_ms = time.time_ns() // 1_000_000
        if not self.transform.follows_time or now_ms - self._told_ms.get(partition, 0) < _TELL_MS:
            return
        with contextlib.suppress(StorageUnavailable):
            # While the log is away a read comes back empty too: only the log itself can say that nothing is left. If it
            # cannot, the next time will do; nothing waits for it but a clock, which then stands still.
            if await self.consumer.end(partition) <= next_offset:
                await self.transform.caught_up(partition, now_ms)
                self._told_ms[partition] = now_ms

    async def _carry_out_plan(self, partition: int, start: int, end: int) -> Position:
        logger.info("%s/%d: carrying out the open plan %d-%d", self.transform.topic, partition, start, end)
        async with self._slots:
            chunk = await take_planned(self.consumer, partition, start, end, self.transform)
            self.metrics.replayed_chunks += 1
            return await self._finish(partition, chunk, self._lease(partition, chunk), tried_before=True)

    def _lease(self, partition: int, chunk: Chunk) -> InsertLease:
        return InsertLease(self.consumer, partition, Position(chunk.start, chunk.end), self.clock)

    async def _finish(
        self, partition: int, chunk: Chunk, lease: InsertLease, *, tried_before: bool
    ) -> Position:
        """Insert and commit a planned chunk; return the position after it."""
        pause = _FIRST_PAUSE
        again = False
        while True:
            self._moved[partition] = time.monotonic()
            try:
                if again:
                    # Still ours? Somebody else may have taken over during the pause.
                    await lease.commit_plan()
                await self._store(partition, chunk, lease, tried_before=tried_before or again)
                await self.on_step("before commit")
                done = Position(chunk.end)
                await self.consumer.commit(partition, done)
                await self.on_step("after commit")
            except StorageUnavailable as error:
                # The outcome is open: from now on look before inserting.
                again = True
                self.metrics.retries += 1
                if self.stop.is_set():
                    # The plan stays open; the next start carries it out.
                    return Position(chunk.start, chunk.end)
                await self._pause(partition, error, pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                self._faults.pop(partition, None)
                self.metrics.records += len(chunk.records)
                return done

    async def _store(self, partition: int, chunk: Chunk, lease: InsertLease, *, tried_before: bool) -> None:
        await self.transform.apply(chunk, partition)
        rows = await self.transform.rows(chunk, self.store)
        store = LeasedStore(self.store, lease, self.clock)
        refused = await insert_chunk(
            store, chunk, rows.tables, self.transform, tried_before=tried_before, on_step=self.on_step
        )
        for dead in [*rows.dead, *refused]:
            logger.error(
                "%s offset %d cannot be stored: %s", chunk.log, dead.record.offset, dead.reason[:500]
            )
            await bury(self.log, self.transform.topic, chunk, dead)
        self.metrics.dead_letters += len(rows.dead) + len(refused)
        self.metrics.duplicates += rows.duplicates
        for table, parts in rows.tables.items():
            self.metrics.rows[table] += sum(part.rows for part in parts)

    async def _pause(self, partition: int | None, error: Exception, seconds: float) -> None:
        self._faults[partition] = str(error)
        place = self.transform.topic if partition is None else f"{self.transform.topic}/{partition}"
        logger.warning("%s: waiting %.1f s: %s", place, seconds, error)
        await self._wait(seconds)

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stop.wait(), seconds)


def _drained(worker: "asyncio.Task[bool] | None") -> bool:
    return worker is not None and worker.done() and worker.result()


async def _ended(workers: dict[int, "asyncio.Task[bool]"]) -> None:
    if workers:
        await asyncio.gather(*workers.values())
    workers.clear()

"""The loop of a consumer: it reads a chunk, commits its plan, inserts it, and commits the position after it.

The plan of a chunk is its first and last offset. The next owner of the partition first finishes exactly that chunk, so
a crash at any point leaves each record stored once.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from consumers.blocks import total_rows
from consumers.chunk import Chunk, ChunkLimits, OnStep, Transform
from consumers.dead_letters import append_dead_letter
from consumers.insert_chunk import insert_chunk
from consumers.insert_lease import InsertLease, LeasedStore, StoreClock
from consumers.metrics import ConsumerMetrics
from consumers.take_chunk import READ_BYTES, take_new_chunk, take_planned_chunk
from pipeline_contracts.errors import PartitionLost, RecordsRemoved, StorageUnavailable
from pipeline_contracts.records import Position
from storage_backends.column_store.interface import ColumnStore
from storage_backends.event_log.interface import EventLog, LogConsumer

logger = logging.getLogger(__name__)

_FIRST_PAUSE = 0.2
_MAX_PAUSE = 5.0
# Several chunks wait for the store at the same time. This number limits their memory.
_MAX_CONCURRENT_CHUNKS = 4
_CAUGHT_UP_INTERVAL_MS = 1000
# If a partition stays at one step for longer than this, the readiness check reports it. No engine may take that long to
# respond.
_STALLED_SECONDS = 180.0


@dataclass(slots=True)
class ConsumerLoop:
    """One consumer of one topic, with a worker for each of its partitions. Call `run` to start it, and set `stop` to
    end it."""

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
    """Set to True to end `run` once no record is left."""
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_CONCURRENT_CHUNKS))
    _faults: dict[int | None, str] = field(default_factory=dict)
    _caught_up_ms: dict[int, int] = field(default_factory=dict)
    _step_began: dict[int | None, float] = field(default_factory=dict)
    """When the current step of each worker began, as `time.monotonic`. The key None stands for the claim of
    partitions."""

    @property
    def failure_reason(self) -> str | None:
        """Return why no records are being stored, for the readiness check. None while the consumer works."""
        now = time.monotonic()
        for partition, since in self._step_began.items():
            if now - since > _STALLED_SECONDS:
                return self._faults.get(
                    partition, f"{self._name(partition)}: nothing has moved for {now - since:.0f} s"
                )
        return next(iter(self._faults.values()), None)

    def _name(self, partition: int | None) -> str:
        return self.transform.topic if partition is None else f"{self.transform.topic}/{partition}"

    async def run(self) -> None:
        """Consume all partitions until `stop` is set; finish the chunks in progress first."""
        workers: dict[int, asyncio.Task[bool]] = {}
        try:
            while not self.stop.is_set():
                self._step_began[None] = time.monotonic()
                try:
                    claimed = await self.consumer.claim()
                except PartitionLost:
                    logger.info("%s: the log reassigns the partitions", self.transform.topic)
                    # Each worker ends at its next read or commit. A partition must never have two workers.
                    await _wait_for_workers(workers)
                except StorageUnavailable as error:
                    await self._pause(None, error, _FIRST_PAUSE)
                except Exception as error:
                    logger.exception("%s: the loop failed", self.transform.topic)
                    self.metrics.failures += 1
                    await self._pause(None, error, _MAX_PAUSE)
                else:
                    self._faults.pop(None, None)
                    if self.draining and claimed and all(_has_drained(workers.get(p)) for p in claimed):
                        return
                    self._start_workers(workers, claimed)
                    if workers:
                        await asyncio.wait(
                            workers.values(),
                            timeout=self.consumer.claim_seconds,
                            return_when=asyncio.FIRST_COMPLETED,
                        )
                    else:
                        await self._wait(self.consumer.claim_seconds)
        finally:
            await _wait_for_workers(workers)

    def _start_workers(
        self, workers: dict[int, "asyncio.Task[bool]"], claimed: Mapping[int, Position]
    ) -> None:
        for partition, position in claimed.items():
            worker = workers.get(partition)
            if worker is None or worker.done():
                workers[partition] = asyncio.create_task(
                    self._run_worker(partition, position), name=f"{self.transform.topic}/{partition}"
                )
                workers[partition].add_done_callback(partial(self._forget_worker, partition))

    def _forget_worker(self, partition: int, worker: "asyncio.Task[bool]") -> None:
        self._step_began.pop(partition, None)

    async def _run_worker(self, partition: int, position: Position) -> bool:
        """Process the chunks of one partition. Return True if the worker ended because no record was left."""
        maybe_stored_below: int | None = None
        while not self.stop.is_set():
            self._step_began[partition] = time.monotonic()
            try:
                if maybe_stored_below is None:
                    # The group's position may lie before records that are stored already (it was reset, or the brokers
                    # lost it). Earlier owners of the partition can only have inserted records that are in the log now:
                    # an owner commits its plan before it inserts, and the log refuses commits of earlier owners.
                    maybe_stored_below = await self.consumer.end(partition)
                position, moved = await self._process_next_chunk(partition, position, maybe_stored_below)
            except PartitionLost as error:
                logger.info(
                    "%s/%d: another consumer has the partition now: %s",
                    self.transform.topic,
                    partition,
                    error,
                )
                self._faults.pop(partition, None)
                return False
            except StorageUnavailable as error:
                await self._pause(partition, error, _FIRST_PAUSE)
            except Exception as error:
                # This is a bug. The plan stays committed, and the next worker starts from the committed position.
                logger.exception("%s/%d: the worker failed", self.transform.topic, partition)
                self.metrics.failures += 1
                await self._pause(partition, error, _MAX_PAUSE)
                return False
            else:
                if self.draining and not moved:
                    return True
        return False

    async def _process_next_chunk(
        self, partition: int, position: Position, maybe_stored_below: int
    ) -> tuple[Position, bool]:
        """Process the next chunk. Return the position after it, and False if there was no chunk. Records with offsets
        below `maybe_stored_below` may be stored already."""
        if position.plan_end is not None:
            return await self._finish_open_plan(partition, position.next_offset, position.plan_end), True
        try:
            first = await self.consumer.read(
                partition, position.next_offset, None, READ_BYTES, self.limits.seconds
            )
        except RecordsRemoved as error:
            logger.error("%s: %s", self.transform.topic, error)
            return Position(error.next_offset), True
        self._faults.pop(partition, None)
        if not first:
            await self._report_caught_up(partition, position.next_offset)
            return position, False
        deadline = time.monotonic() + self.limits.seconds
        async with self._slots:
            chunk = await take_new_chunk(
                self.consumer, partition, first, self.transform, self.limits, deadline
            )
            await self.on_step("before plan")
            lease = self._new_lease(partition, chunk)
            await lease.commit_plan()
            await self.on_step("after plan")
            return await self._store_and_commit(
                partition, chunk, lease, tried_before=chunk.start < maybe_stored_below
            ), True

    async def _report_caught_up(self, partition: int, next_offset: int) -> None:
        now_ms = time.time_ns() // 1_000_000
        if (
            not self.transform.needs_caught_up
            or now_ms - self._caught_up_ms.get(partition, 0) < _CAUGHT_UP_INTERVAL_MS
        ):
            return
        with contextlib.suppress(StorageUnavailable):
            # A read is also empty while the log is unavailable, so only `end` proves that no record is left. If `end`
            # fails, only the next report is late.
            if await self.consumer.end(partition) <= next_offset:
                await self.transform.record_caught_up(partition, now_ms)
                self._caught_up_ms[partition] = now_ms

    async def _finish_open_plan(self, partition: int, start: int, end: int) -> Position:
        logger.info("%s/%d: finishing the open plan %d-%d", self.transform.topic, partition, start, end)
        async with self._slots:
            chunk = await take_planned_chunk(self.consumer, partition, start, end, self.transform)
            self.metrics.replayed_chunks += 1
            return await self._store_and_commit(
                partition, chunk, self._new_lease(partition, chunk), tried_before=True
            )

    def _new_lease(self, partition: int, chunk: Chunk) -> InsertLease:
        return InsertLease(self.consumer, partition, Position(chunk.start, chunk.end), self.clock)

    async def _store_and_commit(
        self, partition: int, chunk: Chunk, lease: InsertLease, *, tried_before: bool
    ) -> Position:
        """Insert and commit a planned chunk. Return the position after it."""
        pause = _FIRST_PAUSE
        again = False
        while True:
            self._step_began[partition] = time.monotonic()
            try:
                if again:
                    # Another consumer may have taken over the partition during the pause.
                    await lease.commit_plan()
                await self._store(partition, chunk, lease, tried_before=tried_before or again)
                await self.on_step("before commit")
                done = Position(chunk.end)
                await self.consumer.commit(partition, done)
                await self.on_step("after commit")
            except StorageUnavailable as error:
                # The outcome of the insert is unknown: compare the chunk with the table before the next insert.
                again = True
                self.metrics.retries += 1
                if self.stop.is_set():
                    # The plan stays committed. The next start finishes the chunk.
                    return Position(chunk.start, chunk.end)
                await self._pause(partition, error, pause)
                pause = min(2 * pause, _MAX_PAUSE)
            else:
                self._faults.pop(partition, None)
                self.metrics.records += len(chunk.records)
                return done

    async def _store(self, partition: int, chunk: Chunk, lease: InsertLease, *, tried_before: bool) -> None:
        await self.transform.update_state(chunk, partition)
        rows = await self.transform.make_rows(chunk, self.store)
        store = LeasedStore(self.store, lease, self.clock)
        refused = await insert_chunk(
            store, chunk, rows.tables, self.transform, tried_before=tried_before, on_step=self.on_step
        )
        for dead in [*rows.dead, *refused]:
            logger.error(
                "%s offset %d cannot be stored: %s", chunk.log, dead.record.offset, dead.reason[:500]
            )
            await append_dead_letter(self.log, self.transform.topic, chunk, dead)
        self.metrics.dead_letters += len(rows.dead) + len(refused)
        self.metrics.duplicates += rows.duplicates
        for table, parts in rows.tables.items():
            self.metrics.rows[table] += total_rows(parts)

    async def _pause(self, partition: int | None, error: Exception, seconds: float) -> None:
        self._faults[partition] = str(error)
        logger.warning("%s: retrying in %.1f s: %s", self._name(partition), seconds, error)
        await self._wait(seconds)

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stop.wait(), seconds)


def _has_drained(worker: "asyncio.Task[bool] | None") -> bool:
    return worker is not None and worker.done() and worker.result()


async def _wait_for_workers(workers: dict[int, "asyncio.Task[bool]"]) -> None:
    if workers:
        await asyncio.gather(*workers.values())
    workers.clear()

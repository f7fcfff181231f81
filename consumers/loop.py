"""The loop of a consumer: take, plan, insert, commit.

A chunk's bounds are written down before it is inserted. Whoever owns the partition next carries out exactly
that chunk first, so that a crash at any point leaves each record stored once.
"""

import asyncio
import contextlib
import logging
from dataclasses import dataclass

from consumers.chunk import Chunk, ChunkLimits, OnStep, Step, Transform
from consumers.dead_letters import bury
from consumers.insert_chunk import insert_chunk
from consumers.metrics import ConsumerMetrics
from consumers.take_chunk import take_new, take_planned
from pipeline_contracts.errors import PartitionLost, StorageUnavailable
from pipeline_contracts.records import Position
from storage_backends.column_store.interface import ColumnStore
from storage_backends.event_log.interface import EventLog, LogConsumer

logger = logging.getLogger(__name__)

_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 5.0


async def _no_step(step: Step) -> None:
    return None


@dataclass(slots=True)
class ConsumerLoop:
    """One consumer on one topic. `run` until `stop` is set."""

    consumer: LogConsumer
    log: EventLog
    store: ColumnStore
    transform: Transform
    limits: ChunkLimits
    metrics: ConsumerMetrics
    stop: asyncio.Event
    on_step: OnStep = _no_step
    draining: bool = False
    """Set it to let `run` end by itself once nothing is left to take."""
    failing: str | None = None
    """Why nothing moves now, for the readiness answer; None while all is well."""

    async def run(self) -> None:
        """Work through all partitions until told to stop; what is under way is finished first."""
        positions: dict[int, Position] = {}
        while not self.stop.is_set():
            try:
                claimed = await self.consumer.claim()
                positions = {p: positions.get(p, claimed[p]) for p in claimed}
                before = dict(positions)
                for partition in sorted(positions):
                    positions[partition] = await self._advance(partition, positions[partition])
                if self.draining and positions == before:
                    return
            except PartitionLost:
                logger.info("%s: a partition went to another consumer", self.transform.topic)
                positions.clear()
            except StorageUnavailable as error:
                await self._pause(error, _FIRST_PAUSE)
            except Exception as error:
                # A fault of ours. What was planned stays planned; look again from what is written down.
                logger.exception("%s: the loop failed", self.transform.topic)
                self.metrics.failures += 1
                positions.clear()
                await self._pause(error, _LONGEST_PAUSE)

    async def _advance(self, partition: int, position: Position) -> Position:
        if position.plan_end is not None:
            return await self._carry_out_plan(partition, position)
        chunk = await take_new(self.consumer, partition, position.next_offset, self.transform, self.limits)
        if chunk is None:
            return position
        await self.on_step("before plan")
        await self.consumer.commit(partition, Position(chunk.start, chunk.end))
        await self.on_step("after plan")
        return await self._finish(partition, chunk, tried_before=False)

    async def _carry_out_plan(self, partition: int, position: Position) -> Position:
        assert position.plan_end is not None
        logger.info(
            "%s/%d: carrying out the open plan %d-%d",
            self.transform.topic,
            partition,
            position.next_offset,
            position.plan_end,
        )
        chunk = await take_planned(
            self.consumer, partition, position.next_offset, position.plan_end, self.transform
        )
        self.metrics.replayed_chunks += 1
        return await self._finish(partition, chunk, tried_before=True)

    async def _finish(self, partition: int, chunk: Chunk, *, tried_before: bool) -> Position:
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._store(chunk, tried_before=tried_before)
                await self.on_step("before commit")
                done = Position(chunk.end)
                await self.consumer.commit(partition, done)
                await self.on_step("after commit")
            except StorageUnavailable as error:
                # The outcome is open: from now on look before inserting.
                tried_before = True
                self.metrics.retries += 1
                if self.stop.is_set():
                    # The plan stays open; the next start carries it out.
                    return Position(chunk.start, chunk.end)
                await self._pause(error, pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                self.failing = None
                self.metrics.records += len(chunk.records)
                return done

    async def _store(self, chunk: Chunk, *, tried_before: bool) -> None:
        rows = await self.transform.rows(chunk, self.store)
        refused = await insert_chunk(
            self.store, chunk, rows.tables, self.transform, tried_before=tried_before, on_step=self.on_step
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

    async def _pause(self, error: Exception, seconds: float) -> None:
        self.failing = str(error)
        logger.warning("%s: waiting %.1f s: %s", self.transform.topic, seconds, error)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stop.wait(), seconds)

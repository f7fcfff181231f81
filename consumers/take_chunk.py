"""Reads the next chunk of a partition: all available records, up to the limits of a chunk."""

import logging
import time
from collections.abc import Sequence

from consumers.chunk import Chunk, ChunkLimits, Transform
from pipeline_contracts.errors import RecordsRemoved, StorageUnavailable
from pipeline_contracts.records import LogRecord
from storage_backends.event_log.interface import LogConsumer

logger = logging.getLogger(__name__)

READ_BYTES = 4 * 2**20
_PLANNED_READ_SECONDS = 5.0


async def take_new_chunk(
    consumer: LogConsumer,
    partition: int,
    first: Sequence[LogRecord],
    transform: Transform,
    limits: ChunkLimits,
    deadline: float,
) -> Chunk:
    """Return a chunk with the records `first`, which were read already, and with further records that arrive until
    `deadline` (as `time.monotonic`). Raises `StorageUnavailable` and `PartitionLost`."""
    records: list[LogRecord] = []
    weight = _Weight(limits)
    start = first[0].offset
    read = first
    while read:
        for record in read:
            if not weight.add(transform.weight(record), len(record.value)):
                return _chunk(consumer, transform, partition, start, records)
            records.append(record)
        wait = deadline - time.monotonic()
        if wait <= 0:
            break
        read = await consumer.read(partition, read[-1].offset + 1, None, READ_BYTES, wait)
    return _chunk(consumer, transform, partition, start, records)


async def take_planned_chunk(
    consumer: LogConsumer, partition: int, start: int, end: int, transform: Transform
) -> Chunk:
    """Return a chunk with exactly the records of a committed plan. Raises `StorageUnavailable`, also if the log does
    not deliver all of them, and `PartitionLost`."""
    records: list[LogRecord] = []
    position = start
    while position < end:
        try:
            read = await consumer.read(partition, position, end, READ_BYTES, _PLANNED_READ_SECONDS)
        except RecordsRemoved as error:
            logger.error("%s: %s", transform.topic, error)
            position = error.next_offset
            continue
        if not read:
            # The log had all these records when the chunk was planned. Skipping one would lose it.
            raise StorageUnavailable(
                f"The log did not deliver the planned records {position}-{end} within {_PLANNED_READ_SECONDS:.0f} s."
            )
        records.extend(read)
        position = read[-1].offset + 1
    return Chunk(_log_name(consumer, transform, partition), start, end, records)


def _chunk(
    consumer: LogConsumer, transform: Transform, partition: int, start: int, records: Sequence[LogRecord]
) -> Chunk:
    return Chunk(_log_name(consumer, transform, partition), start, records[-1].offset + 1, records)


def _log_name(consumer: LogConsumer, transform: Transform, partition: int) -> str:
    return f"{transform.topic}/{consumer.log_id}/{partition}"


class _Weight:
    """The total weight of a chunk's records."""

    def __init__(self, limits: ChunkLimits) -> None:
        self._limits = limits
        self._rows = 0
        self._bytes = 0
        self._records = 0
        self._table_partition = -1

    def add(self, weight: tuple[int, int], size: int) -> bool:
        """Add a record and return True. Return False if the record would exceed a limit. The first record always
        fits."""
        rows, table_partition = weight
        if self._records and (
            self._rows + rows > self._limits.rows
            or self._bytes + size > self._limits.bytes
            or (
                -1 not in (table_partition, self._table_partition)
                and table_partition != self._table_partition
            )
        ):
            return False
        self._records += 1
        self._rows += rows
        self._bytes += size
        if table_partition != -1:
            self._table_partition = table_partition
        return True

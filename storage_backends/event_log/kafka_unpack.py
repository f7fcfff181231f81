"""Takes records out of what aiokafka has fetched, a bounded number of bytes at a time.

`getmany` unpacks all fetched batches before it returns: 1 MiB of batches that compress well may hold 25 GiB of records.
"""

from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.fetcher import Fetcher, FetchResult

from pipeline_contracts.records import LogRecord


async def read_fetched(
    consumer: AIOKafkaConsumer, place: TopicPartition, max_bytes: int, wait: float
) -> list[LogRecord]:
    """The next records of a partition, until their values are `max_bytes` or more; waits at most `wait` seconds for the
    first one.

    A batch is decompressed as a whole when its first record is taken, and the producer closes a batch at 512 KiB:
    what is unpacked here is `max_bytes`, one batch and one record at most. Raises what `getmany` raises.
    """
    fetched = await consumer.getmany(place, timeout_ms=int(wait * 1000), max_records=1)
    records = [_record(found) for found in fetched.get(place, ())]
    size = sum(len(record.value) for record in records)
    if records and size < max_bytes:
        records += _take(consumer._fetcher, place, max_bytes - size)
    return records


def _take(fetcher: Fetcher, place: TopicPartition, max_bytes: int) -> list[LogRecord]:
    """What aiokafka's `Fetcher.fetched_records` does, with a limit of bytes in place of a number of records."""
    result = fetcher._records.get(place)
    if not isinstance(result, FetchResult) or not result.check_assignment(place):
        return []
    taken: list[LogRecord] = []
    size = 0
    for found in result._partition_records:
        record = _record(found)
        taken.append(record)
        size += len(record.value)
        if size >= max_bytes:
            result._update_position()
            return taken
    result._update_position()
    # All of it is taken: aiokafka may fetch more.
    del fetcher._records[place]
    fetcher._notify(fetcher._wait_consume_future)
    return taken


def _record(found: Any) -> LogRecord:
    meta = found.headers[0][1] if found.headers else b""
    return LogRecord(found.offset, found.key or b"", meta, found.value or b"")

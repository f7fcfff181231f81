"""Unpacks the batches that aiokafka has fetched, a limited number of bytes at a time.

aiokafka's `getmany` unpacks all fetched batches before it returns: 1 MiB of highly compressed batches may become 25 GiB
of records.
"""

from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.fetcher import Fetcher, FetchResult

from pipeline_contracts.records import LogRecord


async def read_fetched(
    consumer: AIOKafkaConsumer, topic_partition: TopicPartition, max_bytes: int, wait: float
) -> list[LogRecord]:
    """Return the next records of a partition, until their values have `max_bytes` or more. Waits at most `wait` seconds
    for the first record.

    A batch is decompressed as a whole when its first record is read, and the producer closes a batch at 512 KiB. So the
    memory is limited to `max_bytes`, one batch and one record. Raises the errors of `getmany`.
    """
    fetched = await consumer.getmany(topic_partition, timeout_ms=int(wait * 1000), max_records=1)
    records = [_to_log_record(found) for found in fetched.get(topic_partition, ())]
    size = sum(len(record.value) for record in records)
    if records and size < max_bytes:
        records += _take_fetched(consumer._fetcher, topic_partition, max_bytes - size)
    return records


def _take_fetched(fetcher: Fetcher, topic_partition: TopicPartition, max_bytes: int) -> list[LogRecord]:
    """Do what aiokafka's `Fetcher.fetched_records` does, with a limit in bytes instead of records."""
    result = fetcher._records.get(topic_partition)
    if not isinstance(result, FetchResult) or not result.check_assignment(topic_partition):
        return []
    taken: list[LogRecord] = []
    size = 0
    for found in result._partition_records:
        record = _to_log_record(found)
        taken.append(record)
        size += len(record.value)
        if size >= max_bytes:
            result._update_position()
            return taken
    result._update_position()
    # All fetched records are used: let aiokafka fetch more.
    del fetcher._records[topic_partition]
    fetcher._notify(fetcher._wait_consume_future)
    return taken


def _to_log_record(found: Any) -> LogRecord:
    meta = found.headers[0][1] if found.headers else b""
    return LogRecord(found.offset, found.key or b"", meta, found.value or b"")

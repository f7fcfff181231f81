"""Reads a partition of bodies that compress ten thousand times, while another partition has another tenant's records.

python -m tests.hostile.read_compressed_batches BOOTSTRAP TOPIC COUNT

The topic has two partitions, and the bodies are in the first. Prints JSON: records and MiB that were read, the peak of
memory before and after in MiB, and the seconds from append to read of the other tenant's records (median and longest).
"""

import asyncio
import json
import statistics
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

from consumers.take_chunk import READ_BYTES
from storage_backends.event_log.kafka import KafkaEventLog, open_kafka_log
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_consumer import KafkaLogConsumer
from tests.support.log_under_test import MB, wait_claimed, wait_connected

HOSTILE, OTHER = 0, 1
# Keys of the two partitions: one CRC-32 is even, the other one odd.
KEYS = {HOSTILE: b"d", OTHER: b"k"}


async def read_hostile(consumer: KafkaLogConsumer, count: int) -> int:
    """Read the given number of records as the consumer loop does; return their bytes."""
    at = size = 0
    while at < count:
        for record in await consumer.read(HOSTILE, at, None, READ_BYTES, 5.0):
            at = record.offset + 1
            size += len(record.value)
        await asyncio.sleep(0)
    return size


async def follow_other(log: KafkaEventLog, consumer: KafkaLogConsumer, topic: str) -> list[float]:
    """Append and read one record after the other until cancelled; return the seconds of each."""
    took: list[float] = []
    try:
        for at in range(1_000_000):
            begun = time.monotonic()
            await log.append(topic, KEYS[OTHER], b"", b"{}")
            while not await consumer.read(OTHER, at, None, READ_BYTES, 5.0):
                pass
            took.append(time.monotonic() - begun)
    except asyncio.CancelledError:
        pass
    return took


def peak_mb() -> float:
    """Return the peak memory of this process in MiB."""
    (line,) = [
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")
    ]
    return int(line.split()[1]) / 1024


async def main(bootstrap: str, topic: str, count: int) -> None:
    connection = KafkaConnection(bootstrap)
    async with AsyncExitStack() as exits:
        log = await open_kafka_log(connection, [topic], buffer_bytes=8 * MB, acknowledge_seconds=60.0)
        exits.push_async_callback(log.close)
        consumer = KafkaLogConsumer(connection, "hostile", topic, session_seconds=15.0)
        exits.push_async_callback(consumer.close)
        await wait_connected(log)
        await wait_claimed(consumer, 2)
        before = peak_mb()
        following = asyncio.create_task(follow_other(log, consumer, topic))
        read = await read_hostile(consumer, count)
        following.cancel()
        took = await following
    figures = {
        "records": count,
        "read_mb": read / MB,
        "peak_before_mb": round(before),
        "peak_mb": round(peak_mb()),
        "other_records": len(took),
        "other_median_s": round(statistics.median(took), 3) if took else None,
        "other_longest_s": round(max(took), 3) if took else None,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))

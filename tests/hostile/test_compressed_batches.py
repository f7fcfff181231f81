"""Bodies of 20 MiB that compress to some hundred bytes: a fetch of 1 MiB contains 25 GiB."""

import json
import secrets
import sys

import pytest

from storage_backends.event_log.kafka import open_kafka_log
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_topics import create_topics
from tests.hostile.read_compressed_batches import HOSTILE, KEYS
from tests.support import fork_server
from tests.support.log_under_test import MB, topic_settings, wait_connected

_BODY = b'{"batch_id": "b", "events": [' + b" " * (20 * MB - 64) + b"]}"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("count", [24, pytest.param(1280, marks=pytest.mark.full)])
async def test_a_consumer_decompresses_batches_with_bounded_memory(kafka_bootstrap: str, count: int) -> None:
    connection = KafkaConnection(kafka_bootstrap)
    topic = f"test.{secrets.token_hex(6)}"
    await create_topics(connection, [topic], topic_settings(2))
    log = await open_kafka_log(connection, [topic], buffer_bytes=64 * MB, acknowledge_seconds=60.0)
    try:
        await wait_connected(log)
        for _ in range(count):
            await log.append(topic, KEYS[HOSTILE], b"", _BODY)
    finally:
        await log.close()
    done = fork_server.run(
        [sys.executable, "-m", "tests.hostile.read_compressed_batches", kafka_bootstrap, topic, str(count)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    print(figures)
    assert figures["read_mb"] == pytest.approx(count * 20, rel=0.01)
    # The current batch, its records, and those of the previous read.
    assert figures["peak_mb"] - figures["peak_before_mb"] < 160
    # Few bodies are read before the other tenant's first record.
    assert figures["other_records"] > 0 or count < 100

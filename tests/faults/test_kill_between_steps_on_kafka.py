"""On Kafka, too, `kill -9` between any two steps of the consumer's loop loses and repeats no events.

The next consumer reads from the group's committed offset, and would choose other chunk bounds than the killed one: only
the plan in the commit's metadata makes it repeat the same chunk.
"""

import asyncio
import json
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from storage_backends.event_log.kafka import KafkaEventLog, open_kafka_log
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_topics import create_topics
from tests.faults.kill_points import ALL_STEPS, STATES
from tests.support import fork_server
from tests.support.log_under_test import MB, topic_settings, wait_connected
from tests.support.telemetry_records import append_batch

_EVENTS = 50
_PARTITIONS = 3
_MOST_BATCHES = 3000


class _Sender:
    """Appends batches as the edge does, the last one of each step twice."""

    def __init__(self, log: KafkaEventLog, topic: str) -> None:
        self._log = log
        self._topic = topic
        self.sent: dict[str, int] = {}

    async def send(self, step: str, number: int) -> None:
        ids = range(_EVENTS * number, _EVENTS * (number + 1))
        events: list[dict[str, Any]] = [{"type": "log", "service": step, "id": f"{step} {i}"} for i in ids]
        await append_batch(self._log, "env_killed", f"{step} {number}", events, topic=self._topic)
        self.sent[step] = max(self.sent.get(step, 0), number + 1)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("steps", [STATES, pytest.param(ALL_STEPS, marks=pytest.mark.full)], ids=len)
async def test_a_kill_at_each_step_leaves_each_event_stored_once(
    tmp_path: Path, kafka_bootstrap: str, steps: list[str]
) -> None:
    topic = f"killed.{secrets.token_hex(4)}"
    connection = KafkaConnection(kafka_bootstrap)
    await create_topics(connection, [topic, f"{topic}.dead"], topic_settings(_PARTITIONS))
    log = await open_kafka_log(connection, [topic], buffer_bytes=32 * MB, acknowledge_seconds=60.0)
    try:
        await wait_connected(log)
        sender = _Sender(log, topic)
        order = tmp_path / "kill-at"
        for step in steps:
            process = _start(kafka_bootstrap, topic, tmp_path)
            # More records keep arriving: after the kill, more than the interrupted chunk is available.
            for number in range(_MOST_BATCHES):
                if number == 20:
                    order.write_text(step)
                await sender.send(step, number)
                await asyncio.sleep(0.002)
                if process.poll() is not None:
                    break
            assert await asyncio.to_thread(process.wait, 120) == -9, (tmp_path / "consumer.log").read_text()
            order.unlink()
            # The last batch got no response, so its client sends it again.
            await sender.send(step, sender.sent[step] - 1)
            for number in range(sender.sent[step], sender.sent[step] + 10):
                await sender.send(step, number)
        report = await asyncio.to_thread(_report, kafka_bootstrap, topic, tmp_path)
    finally:
        await log.close()
    assert report["stored"] == {step: [_EVENTS * n, _EVENTS * n] for step, n in sender.sent.items()}
    assert report["double"] == []
    replays = (tmp_path / "consumer.log").read_text().count("finishing the open plan")
    # Kills after the plan and before the last commit.
    assert replays >= len(set(steps) - {"before plan", "after commit"})


def _command(bootstrap: str, topic: str, data: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "tests.faults.killable_consumer"),
        *("--bootstrap", bootstrap, "--topic", topic, "--data", str(data)),
    ]


def _start(bootstrap: str, topic: str, data: Path) -> "subprocess.Popen[bytes]":
    with open(data / "consumer.log", "ab") as log:
        return fork_server.popen(_command(bootstrap, topic, data), stderr=log, cwd=Path(__file__).parents[2])


def _report(bootstrap: str, topic: str, data: Path) -> Any:
    with open(data / "consumer.log", "ab") as log:
        done = fork_server.run(
            [*_command(bootstrap, topic, data), "--report"],
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=Path(__file__).parents[2],
            timeout=180,
        )
    assert done.returncode == 0, (data / "consumer.log").read_text()[-3000:]
    return json.loads(done.stdout)

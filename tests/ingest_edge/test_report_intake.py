"""Reports of an edge that it accepts signals."""

import asyncio
from typing import Any

import msgspec
import pytest

from ingest_edge import report_intake
from ingest_edge.report_intake import reporting_intake
from pipeline_contracts import topics
from pipeline_contracts.errors import LogFull, StorageUnavailable
from pipeline_contracts.monitors import INTAKE_KEY, INTAKE_MONITOR, HeartbeatSignal, decode_monitor_meta


class _Log:
    """Accepts the first record, refuses two as unreachable, fails for one, and accepts all others."""

    def __init__(self) -> None:
        self.answers: list[Exception | None] = [
            None,
            StorageUnavailable("away"),
            LogFull("full"),
            RuntimeError("fault"),
        ]
        self.taken: list[tuple[str, bytes, bytes, bytes]] = []
        self.has_two = asyncio.Event()

    async def append(self, *record: Any) -> None:
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        self.taken.append(record)
        if len(self.taken) == 2:
            self.has_two.set()


async def test_reports_go_on_after_an_outage_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_intake, "_REPORT_SECONDS", 0.001)
    monkeypatch.setattr(report_intake, "_RETRY_SECONDS", 0.001)
    log: Any = _Log()
    async with reporting_intake(log):
        # Before the port opens, so that it precedes every signal.
        assert len(log.taken) == 1
        await asyncio.wait_for(log.has_two.wait(), 30)
    for topic, key, meta, value in log.taken:
        read = decode_monitor_meta(meta)
        assert (topic, key, read.monitor, read.kind) == (
            topics.HEARTBEATS,
            INTAKE_KEY,
            INTAKE_MONITOR,
            "heartbeat",
        )
        assert read.received_ms > 1_700_000_000_000
        # A consumer of an older version reads a signal of a heartbeat that does not exist.
        assert msgspec.json.decode(value, type=HeartbeatSignal).signal == "success"

"""A child process that measures the scan for due heartbeats and the consumer of signals, with a number of
heartbeats in a database.

The database is SQLite, as in `pharos up`. The CPU time is that of the whole process.
"""

import asyncio
import json
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import uvloop

from consumers.chunk import Chunk
from consumers.scan_heartbeats import HeartbeatScan
from consumers.transforms.heartbeats_topic import HeartbeatsTopic
from loadtests.bench.child_process import send_result
from pipeline_contracts import topics
from pipeline_contracts.blind_times import SCAN_CLOCK
from pipeline_contracts.monitors import MonitorMeta, encode_monitor_meta
from pipeline_contracts.records import LogRecord
from storage_backends.monitor_states.interface import MonitorStates, Progress
from tests.support.monitored import MINUTE, T0, Monitored, open_monitored

_SCANS = 500
_SIGNALS = 20_000
_CHUNK = 2_000
# Every heartbeat is due every 5 minutes. It gets its signal one minute before that.
_SCHEDULE = {"period_seconds": 300, "grace_seconds": 60}
_DUE_MS = T0 + 5 * MINUTE
_DEADLINE_MS = T0 + 6 * MINUTE


class _Clock:
    def __init__(self) -> None:
        self.now_ms = T0

    def __call__(self) -> int:
        return self.now_ms


async def _run(folder: Path, heartbeats: int) -> None:
    async with open_monitored(f"sqlite+aiosqlite:///{folder / 'control.sqlite'}") as monitored:
        ids = await monitored.add_heartbeats(heartbeats, **_SCHEDULE)
        await monitored.execute(
            f"UPDATE heartbeat_states SET state = 'up', due_ms = {_DUE_MS}, deadline_ms = {_DEADLINE_MS}"
        )
        signal_us = await _measure_signals(monitored, ids)
        clock = _Clock()
        scan = HeartbeatScan(monitored.states, asyncio.Event(), clock)
        clock.now_ms = T0 + MINUTE
        await _advance(monitored.states, clock.now_ms)
        await scan.scan_once()
        before = time.process_time()
        for _ in range(_SCANS):
            clock.now_ms += 2
            await scan.scan_once()
        scan_ms = 1e3 * (time.process_time() - before) / _SCANS
        due_us = await _measure_due(monitored, scan, clock, heartbeats)
        send_result({"signal_us": signal_us, "scan_ms": scan_ms, "due_us": due_us})


async def _advance(states: MonitorStates, through_ms: int) -> None:
    """Store that all signals up to this time are applied."""
    await states.note_progress(Progress(topics.HEARTBEATS, 0, through_ms))


async def _measure_signals(monitored: Monitored, ids: list[int]) -> float:
    """Return the CPU time of a signal in microseconds. The signals belong to the heartbeats in turn."""
    topic = HeartbeatsTopic(monitored.states)
    step = max(1, len(ids) // _SIGNALS)
    records = []
    for number in range(_SIGNALS):
        heartbeat = ids[number * step % len(ids)]
        meta = MonitorMeta("heartbeat", heartbeat, monitored.environment_id, T0 + number)
        body = b'{"run_id":"%s","signal":"success"}' % str(uuid.UUID(int=number << 64 | 4 << 76)).encode()
        records.append(LogRecord(number, b"", encode_monitor_meta(meta), body))
    before = time.process_time()
    for begin in range(0, _SIGNALS, _CHUNK):
        chunk = Chunk("heartbeats/bench/0", begin, begin + _CHUNK, records[begin : begin + _CHUNK])
        await topic.update_state(chunk, 0)
    used = time.process_time() - before
    (row,) = await monitored.rows("SELECT count(*) AS runs FROM heartbeat_runs")
    assert row["runs"] == _SIGNALS, row
    return 1e6 * used / _SIGNALS


async def _measure_due(monitored: Monitored, scan: HeartbeatScan, clock: _Clock, heartbeats: int) -> float:
    """Return the CPU time per heartbeat in microseconds if the deadlines of all heartbeats have passed."""
    # A heartbeat that got a signal has a later deadline, but all deadlines are before this time.
    clock.now_ms = T0 + 20 * MINUTE
    # Store that the scan ran meanwhile: otherwise a gap of the scan would move the deadlines.
    await monitored.states.note_progress(Progress(SCAN_CLOCK, 0, clock.now_ms))
    await _advance(monitored.states, clock.now_ms)
    before = time.process_time()
    await scan.scan_once()
    used = time.process_time() - before
    (row,) = await monitored.rows(
        "SELECT count(*) AS late FROM heartbeat_states WHERE state IN ('late', 'down')"
    )
    assert row["late"] == heartbeats, row
    return 1e6 * used / heartbeats


def main() -> None:
    """Fill the database, measure, and report. The argument is a JSON object: folder, and the number of
    heartbeats."""
    arguments: dict[str, Any] = json.loads(sys.argv[1])
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(Path(arguments["folder"]), arguments["heartbeats"]))


if __name__ == "__main__":
    main()

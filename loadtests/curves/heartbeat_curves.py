"""Measures curves of heartbeats: a ping at the edge, a signal at the consumer, and the scan for due
heartbeats."""

import tempfile

from loadtests.bench.child_process import running_child
from loadtests.bench.edge import Engines, fresh_edge, measure_requests
from loadtests.bench.ingest_requests import spread_heartbeat_requests
from loadtests.bench.progress import Progress
from loadtests.bench.run_length import RunLength
from loadtests.curves.points import Point

_HEARTBEATS = (1_000, 10_000, 100_000)
_CONNECTIONS = 64
_SCAN_SECONDS = 2.0
"""Seconds between two scans. `consumers.scan_heartbeats` has the same value."""


async def measure_heartbeats(progress: Progress, length: RunLength) -> list[Point]:
    """Measure with the embedded engines, as in `pharos up`: log and states are in SQLite."""
    points = []
    for heartbeats in _HEARTBEATS:
        label = f"{heartbeats:,} heartbeats"
        async with fresh_edge(Engines(monitors=heartbeats)) as edge:
            requests = spread_heartbeat_requests(edge.monitor_keys)
            measured = await measure_requests(progress, label, edge, requests, _CONNECTIONS, length)
        with (
            tempfile.TemporaryDirectory(prefix="pharos-curves-") as folder,
            progress.step(f"{label}: states", None),
        ):
            arguments = {"folder": folder, "heartbeats": heartbeats}
            async with running_child("heartbeat_process", arguments, "loadtests.curves") as child:
                report = await child.read()
        points += [
            Point("heartbeat-ping", "edge", heartbeats, measured.cpu_us),
            Point("heartbeat-ping", "consumer", heartbeats, report["signal_us"]),
            Point("heartbeat-scan", "none due", heartbeats, report["scan_ms"] / _SCAN_SECONDS),
            Point("heartbeat-due", "late or down", heartbeats, report["due_us"]),
        ]
    return points

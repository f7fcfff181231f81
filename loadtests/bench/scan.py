"""`python -m loadtests.bench.scan`: measures the CPU time of the heartbeat scan when 100,000 heartbeats become
late, and then down.

Each change also writes an alert event. At the end, all deadlines are moved past a gap.
"""

import argparse
import asyncio
import json
import os
import resource
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import insert

from consumers.scan_heartbeats import HeartbeatScan
from control_domain.accounts.operations import create_account
from control_domain.database.engine import open_engine, open_sessions
from control_domain.database.migrations.upgrade import upgrade_database
from control_domain.projects.operations import create_environment, create_project
from control_domain.tables.monitors import Heartbeat, HeartbeatState
from pipeline_contracts import topics
from pipeline_contracts.blind_times import SCAN_CLOCK
from pipeline_contracts.rate_limits import RateLimit
from storage_backends.monitor_states.interface import MonitorStates, Progress
from storage_backends.monitor_states.postgres import open_postgres_monitor_states
from storage_backends.monitor_states.sqlite import open_sqlite_monitor_states

_T0 = 1_800_000_000_000
_HOUR_MS = 3_600_000
_GRACE_MS = 300_000
_AT_ONCE = 5000


async def _fill(url: str, count: int) -> None:
    """Add `count` heartbeats that are up and have the same deadline."""
    engine = open_engine(url)
    await upgrade_database(engine)
    now = datetime.now(UTC)
    async with open_sessions(engine)() as session, session.begin():
        account = await create_account(session, "Bench", f"bench-{os.getpid()}", RateLimit(1, 1), now)
        project = await create_project(session, account, "Bench", "bench", now)
        environment = await create_environment(session, project, "Bench", "bench", "production", now)
        for begin in range(1, count + 1, _AT_ONCE):
            numbers = range(begin, min(begin + _AT_ONCE, count + 1))
            await session.execute(insert(Heartbeat), [_heartbeat(n, environment.id, now) for n in numbers])
            await session.execute(insert(HeartbeatState), [_state(n) for n in numbers])
    await engine.dispose()


def _heartbeat(number: int, environment: int, now: datetime) -> dict[str, Any]:
    # Half of the heartbeats have a period, the other half a cron expression.
    schedule = (
        {"period_seconds": 3600, "cron": None}
        if number % 2
        else {"period_seconds": None, "cron": "0 * * * *"}
    )
    return {
        "id": number,
        "environment_id": environment,
        "name": f"job {number}",
        **schedule,
        "timezone": "Europe/Oslo",
        "grace_seconds": _GRACE_MS // 1000,
        "max_runtime_seconds": 1800,
        "failures_before_down": 1,
        "paused": False,
        "created_at": now,
    }


def _state(number: int) -> dict[str, Any]:
    return {
        "heartbeat_id": number,
        "state": "up",
        "since_ms": _T0,
        "due_ms": _T0 + _HOUR_MS,
        "deadline_ms": _T0 + _HOUR_MS,
        "last_signal_ms": _T0,
        "last_success_ms": _T0,
        "last_end_ms": _T0,
        "failures_in_row": 0,
        "open_runs": 0,
        "version": 0,
    }


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def _measure(states: MonitorStates) -> dict[str, float]:
    """Return the CPU seconds of this process for each pass over all heartbeats."""
    report = {}
    for name, at_ms in (
        ("nothing due", _T0),
        ("all become late", _T0 + _HOUR_MS),
        ("all become down", _T0 + _HOUR_MS + _GRACE_MS),
    ):
        now_ms = at_ms + 10_000
        # Store that Pharos ran all the time between two passes.
        for clock in (topics.HEARTBEATS, SCAN_CLOCK):
            await states.note_progress(Progress(clock, 0, now_ms))
        scan = HeartbeatScan(states, asyncio.Event(), lambda now_ms=now_ms: now_ms)  # type: ignore[misc]
        before = _cpu_seconds()
        await scan.scan_once()
        report[name] = round(_cpu_seconds() - before, 3)
    before = _cpu_seconds()
    await states.keep_clock(SCAN_CLOCK, now_ms + _HOUR_MS)
    report["all move past a gap"] = round(_cpu_seconds() - before, 3)
    return report


async def _run(url: str | None, count: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="pharos-bench-") as folder:
        path = Path(folder) / "control.sqlite"
        await _fill(url or f"sqlite+aiosqlite:///{path}", count)
        opening = open_postgres_monitor_states(url) if url else open_sqlite_monitor_states(path)
        states: MonitorStates = await opening
        try:
            seconds = await _measure(states)
        finally:
            await states.close()
    return {"database": "postgres" if url else "sqlite", "heartbeats": count, "cpu_seconds": seconds}


def main() -> None:
    """Run the scan, and print the figures as JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.bench.scan",
        description="Measure a scan in which all heartbeats become late, and then down. CPU is this process's.",
    )
    parser.add_argument("--heartbeats", type=int, default=100_000)
    parser.add_argument("--database-url", help="an empty Postgres database instead of a SQLite file")
    arguments = parser.parse_args()
    print(json.dumps(asyncio.run(_run(arguments.database_url, arguments.heartbeats))))


if __name__ == "__main__":
    main()

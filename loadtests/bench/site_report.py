"""`python -m loadtests.bench.site_report`: measures how long a report takes for a site with 10 million page views in
90 days."""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from analytics_queries.visits.calendar_days import day_of, days_between
from analytics_queries.visits.refresh_rollups import refresh_rollups
from analytics_queries.visits.report_request import Goals, ReportRequest, VisitFilters
from analytics_queries.visits.site_report import site_report
from loadtests.bench.figures import percentile
from loadtests.bench.process_usage import cpu_seconds, forget_peak, peak_mb
from storage_backends.column_store.apply_schema import apply_schema
from storage_backends.column_store.chdb_embedded import ChdbColumnStore, open_chdb
from storage_backends.sql_files import read_sql

_FILL = read_sql(__file__)
_DAYS = 90
_ZONE = "Europe/Oslo"
# The time is the afternoon of the last day, so that about half of today is over.
_NOW = datetime(2026, 11, 20, 14, 0, tzinfo=UTC)
_TARGETS_MS = {30: 500.0, 365: 2000.0}
_FILTERS: Mapping[str, VisitFilters] = {
    "none": VisitFilters(),
    "device": VisitFilters(device="Desktop"),
    "country": VisitFilters(country="NO"),
    "source and device": VisitFilters(source="Google", device="Mobile"),
    "path": VisitFilters(path="/"),
}


async def _fill(store: ChdbColumnStore, views: int) -> None:
    await apply_schema(store)
    a_day = views // _DAYS
    midnight = _NOW.replace(hour=0)
    for number in track(range(_DAYS), "Page views", console=Console(stderr=True)):
        day = midnight - timedelta(days=_DAYS - 1 - number)
        await store.command(
            _FILL, {"site": 1, "sites": 1, "first": number * 2 * a_day, "views": a_day, "day": day}
        )


async def _refresh(store: ChdbColumnStore) -> float:
    """Refresh the daily rollups, as the control plane does in the background. Return the CPU seconds."""
    today = day_of(_NOW, _ZONE)
    before = cpu_seconds(os.getpid())
    days = days_between(today - timedelta(days=2 * 365), today - timedelta(days=1))
    await refresh_rollups(store, 1, _ZONE, days, _NOW)
    return cpu_seconds(os.getpid()) - before


async def _report(
    store: ChdbColumnStore, days: int, filters: VisitFilters, now: datetime
) -> dict[str, float]:
    """Make one report. Return milliseconds, CPU milliseconds and the number of rows read."""
    request = ReportRequest(1, _ZONE, filters, Goals(("purchase",), ("/products/7",)), now)
    rows, cpu, begun = await _rows_read(store), cpu_seconds(os.getpid()), time.perf_counter()
    report = await site_report(store, request, days)
    took, used = time.perf_counter() - begun, cpu_seconds(os.getpid()) - cpu
    assert report.current.pageviews
    return {"ms": 1000 * took, "cpu_ms": 1000 * used, "rows": await _rows_read(store) - rows}


async def _rows_read(store: ChdbColumnStore) -> int:
    result = await store.query("SELECT value FROM system.events WHERE event = 'SelectedRows'")
    return int(result.rows[0][0]) if result.rows else 0


async def _child(folder: Path, days: int, name: str, times: int, moving: bool) -> None:
    """Make reports one after the other in a new process. `moving`: each report has a later time, so that the rollup
    of today is stale."""
    store = await open_chdb(folder)
    forget_peak(os.getpid())
    reports = []
    for number in range(times):
        now = _NOW + timedelta(minutes=number if moving else 0)
        reports.append(await _report(store, days, _FILTERS[name], now))
    print(json.dumps({"reports": reports, "peak_mb": peak_mb(os.getpid())}))
    await store.close()


def _run_child(folder: Path, days: int, name: str, times: int, *, moving: bool) -> Any:
    command = [sys.executable, "-m", "loadtests.bench.site_report", "--child"]
    command += [str(folder), str(days), name, str(times), str(int(moving))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def _drop_caches() -> bool:
    """Drop the disk cache of the system. Only root may do this: return False if it failed."""
    try:
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        return False
    return True


def _measure(folder: Path, cold_times: int, times: int) -> list[dict[str, Any]]:
    figures = []
    for days in _TARGETS_MS:
        for name in _FILTERS:
            cold = []
            for _ in range(cold_times):
                dropped = _drop_caches()
                cold += _run_child(folder, days, name, 1, moving=False)["reports"]
            figures.append(_figure(days, name, "cold" if dropped else "new process", cold, None))
            for state, moving in (("warm", False), ("warm, new events", True)):
                measured = _run_child(folder, days, name, times, moving=moving)
                figures.append(_figure(days, name, state, measured["reports"][1:], measured["peak_mb"]))
    return figures


def _figure(
    days: int, name: str, state: str, reports: list[dict[str, float]], peak: float | None
) -> dict[str, Any]:
    ms = [one["ms"] for one in reports]
    return {
        "days": days,
        "filter": name,
        "state": state,
        "reports": len(reports),
        "p50_ms": round(percentile(ms, 0.5)),
        "p95_ms": round(percentile(ms, 0.95)),
        "target_ms": _TARGETS_MS[days],
        "cpu_ms": round(percentile([one["cpu_ms"] for one in reports], 0.5)),
        "rows_read": round(percentile([one["rows"] for one in reports], 0.5)),
        "peak_mb": None if peak is None else round(peak),
    }


def _show(figures: list[dict[str, Any]]) -> None:
    table = Table(*[name.replace("_", " ") for name in figures[0]], box=None)
    for figure in figures:
        over = figure["p95_ms"] > figure["target_ms"]
        table.add_row(*map(str, figure.values()), style="red" if over else "")
    Console(width=140).print(table)


async def _prepare(folder: Path, views: int) -> float:
    store = await open_chdb(folder)
    await _fill(store, views)
    seconds = await _refresh(store)
    await store.close()
    return seconds


def main() -> None:
    """Fill the store, refresh its rollups, and measure reports. Print a table, or JSON."""
    if sys.argv[1:2] == ["--child"]:
        folder_name, days, name, times, moving = sys.argv[2:]
        asyncio.run(_child(Path(folder_name), int(days), name, int(times), bool(int(moving))))
        return
    if sys.argv[1:2] == ["--prepare"]:
        print(asyncio.run(_prepare(Path(sys.argv[2]), int(sys.argv[3]))))
        return
    parser = argparse.ArgumentParser(prog="python -m loadtests.bench.site_report", description=__doc__)
    parser.add_argument("--views", type=int, default=10_000_000)
    parser.add_argument("--times", type=int, default=21, help="warm reports of each kind")
    parser.add_argument("--cold-times", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pharos-bench-") as made:
        folder = Path(made) / "clickhouse"
        # Do this in a process of its own, so that the measured processes start with nothing in memory.
        command = [sys.executable, "-m", "loadtests.bench.site_report", "--prepare", str(folder)]
        prepared = subprocess.run(
            [*command, str(arguments.views)], stdout=subprocess.PIPE, text=True, check=True
        )
        figures = _measure(folder, arguments.cold_times, arguments.times)
    print(f"Rollups of {_DAYS} days: {float(prepared.stdout):.1f} s of CPU", file=sys.stderr)
    if arguments.json:
        print(json.dumps(figures))
    else:
        _show(figures)


if __name__ == "__main__":
    main()

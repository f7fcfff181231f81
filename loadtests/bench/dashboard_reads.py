"""Measures how long the dashboard waits for the data of each page, and the CPU time of the server, which runs control
plane and column store in one process. The store has telemetry of 30 days and page views of 90 days."""

import asyncio
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from loadtests.bench.child_process import running_child
from loadtests.bench.dashboard_pages import DashboardPage, Shown, dashboard_pages
from loadtests.bench.figures import Figure, percentile
from loadtests.bench.measured_load import failure_figure
from loadtests.bench.platform_process import Platform, running_platform
from loadtests.bench.process_usage import cpu_seconds, peak_mb
from loadtests.bench.progress import Progress
from loadtests.bench.run_length import RunLength
from loadtests.bench.telemetry_reads import fill_telemetry

_PART = "dashboard reads"
_P95_TARGET_MS = 300.0
_VIEWS_OF_EVENTS = 0.2
"""Number of page views for each telemetry event."""


async def measure_dashboard_reads(progress: Progress, length: RunLength) -> list[Figure]:
    """Measure p50 and p95 of the time for the data of each page, and the CPU time of the whole process. The requests
    of a page are sent at the same time."""
    with tempfile.TemporaryDirectory(prefix="pharos-bench-") as name:
        folder = Path(name)
        async with running_platform(folder):
            pass
        credentials = json.loads((folder / "credentials.json").read_text())
        site = credentials["site"]["id"]
        await _fill_views(progress, folder, site, int(length.telemetry_events * _VIEWS_OF_EVENTS))
        arguments = {
            "folder": str(folder / "clickhouse"),
            "environment": credentials["environment_id"],
            "events": length.telemetry_events,
        }
        samples = await fill_telemetry(progress, arguments)
        shown = Shown(
            credentials["project_id"],
            credentials["environment_id"],
            site,
            samples["trace"],
            samples["group"],
        )
        # Delete the file, because the next start writes it again with its own address.
        (folder / "credentials.json").unlink()
        async with running_platform(folder) as platform:
            figures = []
            for page in dashboard_pages(shown):
                figures += await _measure(progress, length, platform, page)
            figures.append(Figure(_PART, "memory, peak", peak_mb(platform.pid), "MB"))
            return figures


async def _fill_views(progress: Progress, folder: Path, site: int, views: int) -> None:
    arguments = {"folder": str(folder / "clickhouse"), "site": site, "views": views}
    async with running_child("site_rows", arguments) as child:
        with progress.step(f"{views:,} page views", None):
            await child.read()


async def _measure(
    progress: Progress, length: RunLength, platform: Platform, page: DashboardPage
) -> list[Figure]:
    seconds: list[float] = []
    used = 0.0
    failures: dict[str, int] = {}
    with progress.step(page.name, length.telemetry_reads) as report_progress:
        # The first request is a warm-up and is not measured.
        for number in range(length.telemetry_reads + 1):
            cpu, begun = cpu_seconds(platform.pid), perf_counter()
            failed = await _open(platform, page.paths)
            took = perf_counter() - begun
            for what in failed:
                failures[what] = failures.get(what, 0) + 1
            if number and not failed:
                seconds.append(took)
                used += cpu_seconds(platform.pid) - cpu
            report_progress(number)
    part = f"page {page.name}"
    return [
        Figure(part, "data, p50", 1000 * percentile(seconds, 0.5), "ms"),
        Figure(part, "data, p95", 1000 * percentile(seconds, 0.95), "ms", target=_P95_TARGET_MS),
        Figure(part, "CPU a page", 1000 * used / max(1, len(seconds)), "ms"),
        failure_figure(part, failures),
    ]


async def _open(platform: Platform, paths: Sequence[str]) -> list[str]:
    """Read all paths at the same time, as a page does. Return the errors."""
    headers = {"Authorization": f"Bearer {platform.api_token}"}

    async def read(path: str) -> str | None:
        async with platform.http.get(f"/api/v1/{path}", headers=headers) as response:
            body = await response.read()
            return None if response.status == 200 else f"{response.status} {body[:60]!r}"

    return [failed for failed in await asyncio.gather(*map(read, paths)) if failed is not None]

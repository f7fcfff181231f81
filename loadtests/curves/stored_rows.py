"""Measures curves for a growing column store: storing a page view, making a report, and looking up visits and
receipts."""

import contextlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from loadtests.bench.child_process import running_child
from loadtests.bench.consumer import run_consumer, us_a_row
from loadtests.bench.progress import Progress
from loadtests.bench.run_length import RunLength
from loadtests.curves.points import Point
from loadtests.curves.stored_rows_process import DAYS, RECEIPT_DAYS, STOP_MERGES

_SITE_VIEWS = 300_000
_MANY_SITES = 10_000
_SIZES = (1_000_000, 10_000_000)
"""Numbers of page views to measure. The largest number is an argument."""
_COLD_REPORTS = 3
_WARM_REPORTS = 11
_LOOK_UPS = 4
_CHECKS = 6
_RECEIPT_LOOK_UPS = 21
# Each measurement stores events of sites that no other measurement uses, because event IDs repeat.
_FIRST_NEW_SITE = 1_000_000


async def measure_stored_rows(progress: Progress, length: RunLength, largest: int) -> list[Point]:
    """Measure stores with up to `largest` page views of 10,000 sites. Except for `largest`, also measure stores in
    which all page views belong to one site."""
    points = []
    many = [*(size for size in _SIZES if size < largest), largest]
    for sites, sizes in ((_MANY_SITES, many), (1, many[:-1] or many)):
        with tempfile.TemporaryDirectory(prefix="pharos-curves-") as made:
            folder = Path(made) / "clickhouse"
            await _run(progress, "the site of fixed size", folder, "fill_site", DAYS, views=_SITE_VIEWS)
            views = 0
            for number, size in enumerate(sizes):
                label = f"{size:,} page views of {sites:,} sites"
                # Each page view takes two row numbers. They begin after those of the fixed site and of earlier steps.
                first = 4 * (_SITE_VIEWS + views)
                more = {"sites": sites, "views": size - views, "first": first}
                await _run(progress, label, folder, "fill_others", DAYS, **more)
                views = size
                line = f"{sites:,} other sites" if sites > 1 else "1 other site"
                points += await _measure(progress, length, folder, label, line, size, number)
    return points


async def measure_receipts(progress: Progress, length: RunLength, sizes: Sequence[int]) -> list[Point]:
    """Measure how long it takes to look up the batches of a chunk among the receipts of 28 days."""
    points = []
    with tempfile.TemporaryDirectory(prefix="pharos-curves-") as made:
        folder = Path(made) / "clickhouse"
        stored = 0
        for receipts in sizes:
            label = f"{receipts:,} receipts"
            more = {"receipts": receipts - stored, "first": stored}
            await _run(progress, label, folder, "fill_receipts", RECEIPT_DAYS, **more)
            stored = receipts
            used = await _run(
                progress,
                f"{label}: look-ups",
                folder,
                "look_up_receipts",
                _RECEIPT_LOOK_UPS,
                times=_RECEIPT_LOOK_UPS,
            )
            cost = median(one["cpu_ms"] for one in used[1:])
            points.append(Point("receipt-look-up", "500 batches", receipts, cost))
    return points


async def _measure(
    progress: Progress, length: RunLength, folder: Path, label: str, line: str, size: int, number: int
) -> list[Point]:
    cold = []
    for _ in range(_COLD_REPORTS):
        _drop_caches()
        cold += await _run(progress, f"{label}: cold report", folder, "report", 1, times=1)
    warm = await _run(progress, f"{label}: reports", folder, "report", _WARM_REPORTS, times=_WARM_REPORTS)
    visits = await _run(progress, f"{label}: visits", folder, "look_up_visits", _LOOK_UPS, times=_LOOK_UPS)
    checks = await _run(progress, f"{label}: rollups", folder, "check_rollups", _CHECKS, times=_CHECKS)
    stored = await run_consumer(
        progress,
        f"{label}: storing",
        length,
        "clickhouse",
        transform="pageviews",
        store_folder=str(folder),
        site=_FIRST_NEW_SITE + number,
        commands=[STOP_MERGES],
    )
    return [
        Point("view-report", f"{line}, cold", size, median(one["cpu_ms"] for one in cold)),
        Point("view-report", f"{line}, warm", size, median(one["cpu_ms"] for one in warm[1:])),
        Point("view-visits", line, size, median(one["cpu_ms"] for one in visits[1:])),
        Point("view-check", line, size, median(one["cpu_ms"] for one in checks[1:])),
        Point("view-store", line, size, us_a_row(stored["cpu_seconds"], stored)),
    ]


async def _run(
    progress: Progress, label: str, folder: Path, task: str, steps: int, **arguments: int
) -> list[dict[str, Any]]:
    """Run a task of `stored_rows_process`. Return the reports of its steps."""
    given = {"folder": str(folder), "task": task, **arguments}
    reports = []
    async with running_child("stored_rows_process", given, "loadtests.curves") as child:
        with progress.step(label, steps) as report_progress:
            for number in range(steps):
                reports.append(await child.read())
                report_progress(number + 1)
            # This time includes merges, rollups and closing the store.
            await child.read()
    return reports


def _drop_caches() -> None:
    """Drop the disk cache of the system. Only root may do this."""
    os.sync()
    with contextlib.suppress(OSError):
        Path("/proc/sys/vm/drop_caches").write_text("3")

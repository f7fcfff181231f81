"""Replaying a topic into fresh tables, in other chunks, gives byte-identical reports."""

import asyncio
import json
import os
import random
import shutil
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from demo.past_visits import past_visit_records
from pipeline_contracts import topics
from storage_backends.event_log.sqlite import open_sqlite_log
from tests.support import fork_server
from tests.support.replayed_report import SITE

_ROOT = Path(__file__).parents[2]
_NOW = datetime(2026, 11, 20, 14, 30, tzinfo=UTC)

# Zone, days, filters.
Report = tuple[str, int, dict[str, str]]
_MONTH: Report = ("UTC", 30, {})
_MOBILE, _PRODUCTS = {"device": "Mobile"}, {"path": "/products"}
_ALL: list[Report] = [
    (zone, days, filters)
    for zone in ("UTC", "Asia/Kolkata")
    for days in (1, 7, 30, 90, 365)
    for filters in ({}, _MOBILE, _PRODUCTS)
]
# Each period, zone and filter occurs once or twice.
_EACH_PERIOD: list[Report] = [
    ("Asia/Kolkata", 1, {}),
    ("UTC", 7, _MOBILE),
    _MONTH,
    ("Asia/Kolkata", 90, _PRODUCTS),
    ("UTC", 365, _PRODUCTS),
    ("Asia/Kolkata", 365, _MOBILE),
]


async def _fill(path: Path, days: int) -> int:
    """Append visits of a shop, some of them twice. Return the number of records."""
    rng = random.Random(3)
    records = list(past_visit_records(rng, SITE, "UTC", _NOW, days=days))
    log = await open_sqlite_log(path, 2**40)
    count = 0
    for begin in range(0, len(records), 1000):
        part = [record for record in records[begin : begin + 1000] for _ in range(1 + (rng.random() < 0.02))]
        await asyncio.gather(*(log.append(topics.PAGEVIEWS, *record) for record in part))
        count += len(part)
    await log.close()
    return count


async def _replay(
    log_file: Path,
    folder: Path,
    rows: int,
    reports: list[Report],
    environment: Mapping[str, str] | None = None,
) -> list[bytes]:
    folder.mkdir()
    copy = folder / "log.sqlite"
    shutil.copy(log_file, copy)
    numbers = [str(rows), str(int(_NOW.timestamp() * 1000))]
    arguments = [str(copy), str(folder), *numbers, json.dumps(reports)]
    command = [sys.executable, "-m", "tests.support.replayed_report", *arguments]
    done = await asyncio.to_thread(fork_server.run, command, cwd=_ROOT, capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    lines: list[bytes] = done.stdout.splitlines()
    return lines


@pytest.mark.parametrize(
    ("days", "reports"),
    [
        pytest.param(21, _EACH_PERIOD, id="three weeks"),
        pytest.param(42, _ALL, id="six weeks", marks=pytest.mark.full),
    ],
)
async def test_a_replayed_topic_gives_identical_reports(
    tmp_path: Path, days: int, reports: list[Report]
) -> None:
    log_file = tmp_path / "log.sqlite"
    assert await _fill(log_file, days) > 10_000
    first = await _replay(log_file, tmp_path / "first", 50_000, reports)
    # A chunk covers at most one day, about 1,800 rows here: only a lower limit gives other chunks. Forks of one server
    # have the same hash seed. With another seed the program starts in a new interpreter, where sets have another order.
    seeded = {**os.environ, "PYTHONHASHSEED": "1"}
    again = await _replay(log_file, tmp_path / "again", 1_201, reports, seeded)
    assert len(first) == len(reports)
    month = json.loads(first[reports.index(_MONTH)])
    assert month["period"]["days"] == 30 and month["metrics"]["pageviews"]["value"] > 10_000
    assert first == again

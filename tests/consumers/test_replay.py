"""The topic read again from its start, into fresh tables and in other chunks: the same reports to the byte."""

import asyncio
import json
import random
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

from embedded_app.demo_visits import demo_records
from pipeline_contracts import topics
from storage_backends.event_log.sqlite import open_sqlite_log
from tests.support.replayed_report import SITE, ZONES

_ROOT = Path(__file__).parents[2]
_NOW = datetime(2026, 11, 20, 14, 30, tzinfo=UTC)


async def _fill(path: Path) -> int:
    """Six weeks of a shop, some of it sent again. Gives the number of records."""
    rng = random.Random(3)
    records = list(demo_records(rng, SITE, "UTC", _NOW, days=42))
    log = await open_sqlite_log(path, 2**40)
    count = 0
    for begin in range(0, len(records), 1000):
        part = [record for record in records[begin : begin + 1000] for _ in range(1 + (rng.random() < 0.02))]
        await asyncio.gather(*(log.append(topics.PAGEVIEWS, *record) for record in part))
        count += len(part)
    await log.close()
    return count


async def _replay(log_file: Path, folder: Path, rows: int) -> list[bytes]:
    folder.mkdir()
    copy = folder / "log.sqlite"
    shutil.copy(log_file, copy)
    arguments = [str(copy), str(folder), str(rows), str(int(_NOW.timestamp() * 1000))]
    command = [sys.executable, "-m", "tests.support.replayed_report", *arguments]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=_ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()[-3000:]
    return out.splitlines()


async def test_the_reports_are_the_same_to_the_byte(tmp_path: Path) -> None:
    log_file = tmp_path / "log.sqlite"
    assert await _fill(log_file) > 10_000
    first = await _replay(log_file, tmp_path / "first", 50_000)
    again = await _replay(log_file, tmp_path / "again", 7_001)
    assert len(first) == len(ZONES) * 5 * 3
    month = json.loads(first[6])
    assert month["period"]["days"] == 30 and month["metrics"]["pageviews"]["value"] > 10_000
    assert first == again

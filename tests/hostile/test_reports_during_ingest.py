"""Reports of one account delay neither ingest nor other accounts' reports. `attack_reports.py` prints the delays."""

import asyncio
import sys
import threading
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from tests.hostile.attack_reports import run
from tests.support import fork_server
from tests.support.platform_process import platform_process
from tests.support.stored_visits import store_dropped

# Other tests use the same store.
_SITE = uuid.uuid4().int % 2**31


async def test_ingest_continues_while_all_report_handles_are_busy(column_store: ChdbColumnStore) -> None:
    reports = await column_store.own_handles(readers=2)
    go_on = threading.Event()

    def wait(*_arguments: Any, **_options: Any) -> None:
        go_on.wait(60)
        raise OSError("held back")

    handles = column_store._others.pop()
    for session in (handles._commander, *handles._readers):
        session.query = session.command = wait
    held = [asyncio.create_task(reports.query("SELECT 1")) for _ in range(60)]
    held.append(asyncio.create_task(reports.command("SELECT 1")))
    await asyncio.sleep(0)
    await store_dropped(column_store, _SITE, datetime(2026, 11, 20, tzinfo=UTC), "bot", 3)
    asked = f"SELECT sum(events) FROM pharos.dropped_pageviews WHERE site_id = {_SITE}"
    assert (await column_store.query(asked)).rows == [[3]]
    await column_store.command("SELECT 1")
    assert not any(one.done() for one in held)
    go_on.set()
    assert all(isinstance(one, OSError) for one in await asyncio.gather(*held, return_exceptions=True))
    await handles.close()


# `test_report_queue.py` covers the queue, and the test above the engine.
@pytest.mark.full
async def test_sixty_concurrent_reports_of_one_account_delay_no_other(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    # The engine serves one folder in each process.
    filling = [sys.executable, "-m", "tests.hostile.attack_reports", "--views", "90000", "--fill"]
    fork_server.run([*filling, str(data / "clickhouse")], check=True)
    with platform_process(data) as platform:
        delays = await run(platform, at_once=60, seconds=6.0)
    assert delays.attackers.keys() == {200, 429}
    assert (set(delays.batches), set(delays.reports)) == ({202}, {200})

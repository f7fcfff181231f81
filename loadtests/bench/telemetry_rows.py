"""A child process that fills a column store with the telemetry of 30 days, and reports each statement."""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from loadtests.bench.child_process import send_result
from storage_backends.column_store.apply_schema import apply_schema
from storage_backends.column_store.chdb_embedded import open_chdb
from storage_backends.sql_files import read_statements

DAYS = 30
SHARES = {"events": 1.0, "spans": 0.5, "records": 0.5, "points": 0.2}
"""Number of rows of each kind for one telemetry event."""
STATEMENTS = DAYS * len(SHARES)
_SQL = read_statements(__file__)


async def _fill(folder: Path, environment: str, events: int) -> None:
    store = await open_chdb(folder)
    await apply_schema(store)
    now_s = int(time.time())
    for day in range(DAYS):
        for kind, share in SHARES.items():
            # Make only whole traces.
            rows = max(1, int(events * share) // DAYS // 10) * 10
            parameters = {
                "environment": environment,
                "start_s": now_s - (DAYS - day) * 86_400,
                "first": day * rows,
                "rows": rows,
            }
            await store.command(_SQL[kind], parameters)
            send_result({"rows": rows})
    ((trace, group),) = (
        await store.query(_SQL["samples"], {"environment": environment, "since_s": now_s - 86_400})
    ).rows
    await _wait_for_merges(store)
    await store.close()
    send_result({"trace": trace, "group": group})


async def _wait_for_merges(store: Any) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        ((merges,),) = (await store.query("SELECT count() FROM system.merges")).rows
        if not merges:
            return
        await asyncio.sleep(1)


if __name__ == "__main__":
    given: dict[str, Any] = json.loads(sys.argv[1])
    asyncio.run(_fill(Path(given["folder"]), given["environment"], given["events"]))

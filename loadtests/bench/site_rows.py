"""A child process that fills a column store with the page views of 90 days up to now, and refreshes their rollups."""

import asyncio
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from analytics_queries.visits.calendar_days import day_of, days_between
from analytics_queries.visits.refresh_rollups import refresh_rollups
from loadtests.bench.child_process import send_result
from storage_backends.column_store.apply_schema import apply_schema
from storage_backends.column_store.chdb_embedded import open_chdb
from storage_backends.sql_files import read_sql

DAYS = 90
_FILL = read_sql(Path(__file__).with_name("site_report.py"))


async def _fill(folder: Path, site: int, views: int) -> None:
    store = await open_chdb(folder)
    await apply_schema(store)
    now = datetime.now(UTC)
    a_day = max(1, views // DAYS)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    for number in range(DAYS):
        day = midnight - timedelta(days=DAYS - 1 - number)
        await store.command(
            _FILL, {"first": number * 2 * a_day, "views": a_day, "day": day, "site": site, "sites": 1}
        )
    today = day_of(now, "UTC")
    await refresh_rollups(store, site, "UTC", days_between(today - timedelta(days=2 * DAYS), today), now)
    await store.close()
    send_result({"views": DAYS * a_day})


if __name__ == "__main__":
    given: dict[str, Any] = json.loads(sys.argv[1])
    asyncio.run(_fill(Path(given["folder"]), given["site"], given["views"]))

"""Consumes a topic of page views from its start into new tables and prints reports. A separate program, because a
process can open only one column store.

Arguments: the log's file, an empty folder, rows per chunk, the time in milliseconds, and the reports as a JSON list of
[zone, days, filters].
"""

import asyncio
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from analytics_queries.visits.report_request import Goals, ReportRequest, VisitFilters
from analytics_queries.visits.site_report import site_report
from consumers.assemble import assemble_loop
from consumers.transforms.pageviews_topic import PageviewsTopic
from control_domain.sites.describe_report import ReportedGoal, ReportedSite, describe_report
from pipeline_contracts import topics
from pipeline_contracts.settings import Settings
from storage_backends.column_store.apply_schema import apply_schema
from storage_backends.column_store.chdb_embedded import open_chdb
from storage_backends.event_log.sqlite import open_sqlite_log
from storage_backends.event_log.sqlite_consumer import SqliteLogConsumer

SITE = 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def _replay(
    log_file: Path, folder: Path, rows: int, now: datetime, requests: list[tuple[str, int, dict[str, Any]]]
) -> bytes:
    log = await open_sqlite_log(log_file, 2**40)
    store = await open_chdb(folder / "clickhouse")
    await apply_schema(store)
    try:
        consumer = SqliteLogConsumer(log, topics.CONSUMER_GROUP, topics.PAGEVIEWS)
        settings = Settings(chunk_rows=rows)
        loop = assemble_loop(settings, PageviewsTopic(), consumer=consumer, log=log, store=store)
        loop.draining = True
        await loop.run()
        goals = Goals(("purchase", "signup"), ("/thanks",))
        described = [
            ReportedGoal(1, "Purchase", "purchase", None),
            ReportedGoal(2, "Signup", "signup", None),
            ReportedGoal(3, "Thanks", None, "/thanks"),
        ]
        reports = []
        for zone, days, conditions in requests:
            filters = VisitFilters(**conditions)
            request = ReportRequest(SITE, zone, filters, goals, now)
            site = ReportedSite(SITE, "Shop", zone, described)
            found = await site_report(store, request, days)
            reports.append(orjson.dumps(describe_report(site, filters, found)))
        return b"\n".join(reports)
    finally:
        await store.close()
        await log.close()


def main() -> None:
    """Print the reports, one per line."""
    log_file, folder, rows, now_ms, requests = sys.argv[1:]
    now = _EPOCH + timedelta(milliseconds=int(now_ms))
    sys.stdout.buffer.write(
        asyncio.run(_replay(Path(log_file), Path(folder), int(rows), now, json.loads(requests)))
    )


if __name__ == "__main__":
    main()

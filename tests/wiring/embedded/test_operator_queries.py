"""Queries on the operator socket do not affect reports and inserts."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from analytics_queries.visits.report_request import Goals, ReportRequest, VisitFilters
from analytics_queries.visits.site_report import site_report
from control_domain.sites.describe_report import ReportedSite, describe_report
from storage_backends.column_store import chdb_operator_queries
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from tests.support.stored_visits import sent_event, store_visits
from wiring.embedded.operator_socket import build_operator_app
from wiring.operator_door import OperatorEngines

_NOW = datetime(2026, 11, 20, 14, 30, tzinfo=UTC)
_SITE = 31_000

_READING = {
    "SELECT 1 AS one": '{"one":1}\n',
    "SELECT 1 AS one; -- the last word": '{"one":1}\n',
    "WITH 2 AS two SELECT two": '{"two":2}\n',
    "SHOW TABLES FROM pharos LIKE 'applied_schema'": '{"name":"applied_schema"}\n',
    "EXISTS TABLE pharos.pageviews": '{"result":1}\n',
    "(SELECT '\nINTO OUTFILE ' AS text)": '{"text":"\\nINTO OUTFILE "}\n',
    "SELECT 1 AS one SETTINGS readonly = 1": '{"one":1}\n',
    "SELECT 1 AS one WHERE 0": "",
    "SELECT 1 AS one UNION ALL SELECT 1": '{"one":1}\n{"one":1}\n',
}
_REFUSED = [
    # Settings of the session, and of the query.
    "SET max_rows_to_read = 1",
    "SET readonly = 0",
    "SET max_execution_time = 0.001",
    "SET PROFILE default",
    "SET output_format_json_quote_64bit_integers = 1",
    "SELECT 1 SETTINGS max_rows_to_read = 1",
    "SELECT 1 SETTINGS readonly = 0",
    # Several statements in one.
    "SELECT 1; SET max_rows_to_read = 1",
    "SELECT 1; SELECT 2",
    "SELECT 1 PARALLEL WITH KILL QUERY WHERE 1",
    # Other state of the session, and of the engine.
    "USE system",
    "CREATE TEMPORARY TABLE pageviews (site_id UInt64)",
    "CREATE VIEW pharos.seen AS SELECT 1",
    "CREATE TABLE pharos.another (a Int8) ENGINE = Memory",
    "CREATE FUNCTION one AS () -> 1",
    "KILL QUERY WHERE 1",
    "/* SELECT */ KILL QUERY WHERE 1 SYNC",
    "KILL MUTATION WHERE 1",
    "SYSTEM STOP MERGES",
    "SYSTEM SHUTDOWN",
    "SYSTEM DROP UNCOMPRESSED CACHE",
    "DETACH TABLE pharos.pageviews",
    "DROP TABLE pharos.pageviews",
    "TRUNCATE TABLE pharos.pageviews",
    "ALTER TABLE pharos.pageviews DELETE WHERE 1",
    "OPTIMIZE TABLE pharos.pageviews FINAL",
    "RENAME TABLE pharos.pageviews TO pharos.gone",
    "INSERT INTO pharos.pageviews (site_id) VALUES (31000)",
    "INSERT INTO FUNCTION file('{file}', 'CSV') SELECT 1",
    "BACKUP TABLE pharos.pageviews TO File('{file}')",
    "BEGIN TRANSACTION",
    # Files.
    "SELECT 1 INTO OUTFILE '{file}'",
    "SELECT 1 INTO /* a */ OUTFILE '{file}' TRUNCATE FORMAT CSV",
    "SHOW TABLES INTO OUTFILE '{file}'",
    "SELECT 1 FORMAT Null",
    "SELECT * FROM file('/etc/hostname', 'LineAsString')",
    # More memory than a query may use in this process.
    "SELECT number FROM numbers(100000000)",
    "SELECT toUInt8(1) AS a_name_that_each_row_repeats FROM numbers(1000000)",
    "SELECT groupArray(number) FROM numbers(4000000000)",
    "SELECT sum(sipHash64(number)) FROM numbers(1000000000000)",
    # Statements that are not queries.
    "",
    ";",
    "\\q",
    "exit",
    "SELECT",
    "SELECT nothing FROM nowhere",
    "SELECT throwIf(1)",
    "SELECT " + "(" * 5000,
]


async def _report(store: ChdbColumnStore) -> dict[str, Any]:
    # With a filter, the report adds a setting.
    request = ReportRequest(_SITE, "UTC", VisitFilters(path="/"), Goals(), _NOW)
    return describe_report(
        ReportedSite(_SITE, "Shop", "UTC", ()), request.filters, await site_report(store, request, 7)
    )


async def _no_backup(_request: web.Request) -> web.Response:
    return web.Response(status=503)


async def test_operator_queries_affect_no_reports_or_inserts(
    column_store: ChdbColumnStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = tmp_path / "written"
    client = TestClient(TestServer(build_operator_app(column_store, cast(OperatorEngines, None), _no_backup)))
    views = 0

    async def check_platform(after: str) -> None:
        nonlocal views
        views += 1
        # Each event has a different visitor, so that each insert changes every figure.
        await store_visits(column_store, _SITE, sent_event(_NOW - timedelta(hours=1), f"192.0.2.{views}"))
        pageviews = (await _report(column_store))["metrics"]["pageviews"]["value"]
        assert pageviews == views, after

    async with client:
        for query, rows in _READING.items():
            answer = await client.post("/query", data=query.encode())
            assert (answer.status, await answer.text()) == (200, rows), query
        await check_platform("the reading queries")
        # The same limits with smaller values.
        sooner = {"max_execution_time": 0.2, "max_memory_usage": 2**26, "max_result_bytes": 2**22}
        monkeypatch.setattr(chdb_operator_queries, "_LIMITS", {**chdb_operator_queries._LIMITS, **sooner})
        for query in _REFUSED:
            answer = await client.post("/query", data=query.replace("{file}", str(written)).encode())
            assert answer.status == 400, (query, answer.status, await answer.text())
        await check_platform("the refused queries")
    assert not written.exists()
    tables = await column_store.query(
        "SELECT name FROM system.tables WHERE name IN ('seen', 'another', 'gone', 'pageviews')"
    )
    assert [*map(list, tables.rows)] == [["pageviews"]]

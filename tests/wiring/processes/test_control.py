"""The control plane as a process starts without the column store, and checks its settings first."""

import asyncio
import logging
import socket
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from control_domain.database.engine import open_engine, open_sessions
from control_workers import publish_keys
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.settings import BadSettings, Settings
from storage_backends.column_store.interface import ColumnStore, QueryResult
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from tests.support.databases import migrated_database
from wiring.processes import prerequisites
from wiring.processes.connecting_store import ConnectingColumnStore
from wiring.processes.control import run_control

# Nothing listens at port 9.
_SETTINGS = Settings(
    clickhouse_url="http://127.0.0.1:9",
    redis_url="redis://127.0.0.1:9/0",
    receipt_key="r" * 32,
    variables_key="v" * 32,
    metrics_listen="127.0.0.1:0",
)


async def test_control_serves_while_the_column_store_is_unavailable(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{server.getsockname()[1]}"
    async with (
        migrated_database("sqlite", request, tmp_path) as database_url,
        run_control(replace(_SETTINGS, database_url=database_url), server),
        aiohttp.ClientSession(url) as http,
    ):
        for path, status in (("/health/live", 200), ("/health/ready", 200), ("/api/v1/account", 401)):
            async with http.get(path) as answer:
                assert answer.status == status


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"repository_folders": "relative"}, "PHAROS_REPOSITORY_FOLDERS"),
        ({"clickhouse_url": "clickhouse:8123"}, "PHAROS_CLICKHOUSE_URL: The address"),
    ],
)
async def test_settings_are_checked_before_an_engine_responds(change: dict[str, Any], message: str) -> None:
    settings = replace(_SETTINGS, database_url="sqlite+aiosqlite://", **change)
    with closing(socket.create_server(("127.0.0.1", 0))) as server, pytest.raises(BadSettings, match=message):
        async with run_control(settings, server):
            pass


class _Store:
    closed = False

    async def query(self, sql: str, parameters: object = None) -> QueryResult:
        return QueryResult((sql,), [])

    async def close(self) -> None:
        self.closed = True


async def test_unavailable_store_is_opened_once_it_responds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(prerequisites, "_FIRST_PAUSE_SECONDS", 0.0)
    opened, failures = _Store(), [StorageUnavailable("ClickHouse is away")] * 5

    async def open_store() -> ColumnStore:
        if failures:
            raise failures.pop()
        return opened  # type: ignore[return-value]

    store = ConnectingColumnStore(open_store)
    with pytest.raises(StorageUnavailable, match="has not answered yet"):
        await store.query("SELECT 1")
    with caplog.at_level(logging.INFO):
        await store._opening
    assert [record.getMessage() for record in caplog.records] == [
        "ClickHouse is away; retrying until it responds",
        "it responds after 6 attempts: ClickHouse is away",
    ]
    assert (await store.query("SELECT 1")).columns == ("SELECT 1",)
    await store.close()
    assert opened.closed

    failures.append(StorageUnavailable("ClickHouse is away"))
    monkeypatch.setattr(prerequisites, "_FIRST_PAUSE_SECONDS", 60.0)
    await ConnectingColumnStore(open_store).close()


async def test_the_age_of_the_last_publication_of_keys_is_a_metric(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(publish_keys, "time", SimpleNamespace(monotonic=lambda: now[0]))
    age, stop = publish_keys.PublicationAge(), asyncio.Event()

    def read() -> float:
        (family,) = age.collect()
        assert family.name == "pharos_control_keys_published_age_seconds"
        return float(family.samples[0].value)

    class Directory(InProcessKeyDirectory):
        async def is_complete(self) -> bool:
            stop.set()
            return True

    now[0] += 200
    assert read() == 200
    async with migrated_database("sqlite", request, tmp_path) as url:
        engine = open_engine(url)
        work = publish_keys.publish_keys_periodically(
            open_sessions(engine), Directory(), stop, every=0.001, age=age
        )
        await asyncio.wait_for(work, 10)
        await engine.dispose()
    assert read() == 0
    now[0] += 60
    assert read() == 60

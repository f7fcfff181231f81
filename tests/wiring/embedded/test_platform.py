"""Parts of `pharos up` without any engine."""

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from control_workers.assemble import ControlWorkers
from ingest_edge.health import Readiness
from pipeline_contracts.settings import BadSettings, Settings
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from wiring.embedded import platform


async def test_readiness_shows_warnings_of_the_deployer(monkeypatch: pytest.MonkeyPatch) -> None:
    deployer = SimpleNamespace(failing=None, missing_confinement=None, describe_stopped_output=lambda: None)

    @asynccontextmanager
    async def running(*_given: Any, **_named: Any) -> AsyncIterator[Any]:
        yield deployer

    monkeypatch.setattr(platform, "running_local_deployer", running)
    readiness = Readiness({})
    storage = cast(Any, SimpleNamespace(identity=None, sessions=None, sealing_keys=None))
    async with AsyncExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        await platform._start_deployer(
            stack,
            Settings(),
            Path("data"),
            server,
            storage,
            CollectorRegistry(),
            readiness,
            "http://here",
            cast(Any, None),
        )
        assert {name: reason() for name, reason in readiness.warnings.items()} == {
            "deployer": None,
            "confinement": None,
            "output_logs": None,
        }
        deployer.failing, deployer.missing_confinement = "left as they are", "no namespaces"
        deployer.describe_stopped_output = lambda: "the edge is away"
        assert {name: reason() for name, reason in readiness.warnings.items()} == {
            "deployer": "left as they are",
            "confinement": "no namespaces",
            "output_logs": "the edge is away",
        }
        # Applications that the deployer cannot run do not stop ingest.
        assert readiness.reasons() == {}


async def test_workers_run_before_and_after_the_port_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column_store: ChdbColumnStore
) -> None:
    steps = []

    async def open_store(_path: Path) -> Any:
        # A process has one data path of chDB.
        return SimpleNamespace(
            own_handles=column_store.own_handles, close=_do_nothing, query=column_store.query
        )

    @asynccontextmanager
    async def running(_workers: ControlWorkers, *, is_alone: bool) -> AsyncIterator[None]:
        assert is_alone
        steps.append("workers start")
        yield
        steps.append("workers end")

    async def serve(stack: AsyncExitStack, *_given: Any) -> None:
        steps.append("port opens")
        stack.callback(steps.append, "port closes")

    monkeypatch.setattr(platform, "open_chdb", open_store)
    monkeypatch.setattr(platform, "apply_schema", _do_nothing)
    monkeypatch.setattr(platform, "_serve", serve)
    monkeypatch.setattr(ControlWorkers, "running", running)
    async with platform.run_platform(tmp_path, "127.0.0.1", 0, Settings(), apps_port=0):
        pass
    assert steps == ["workers start", "port opens", "port closes", "workers end"]


async def _do_nothing(*_given: Any) -> None:
    pass


async def test_a_bad_setting_stops_the_start_before_anything_is_made(tmp_path: Path) -> None:
    for settings, variable in (
        (Settings(smtp_url="http://mail.example"), "PHAROS_SMTP_URL"),
        (Settings(public_url="pharos.example"), "PHAROS_PUBLIC_URL"),
        (Settings(owner_email="ada"), "PHAROS_OWNER_EMAIL"),
        (Settings(repository_folders="git"), "PHAROS_REPOSITORY_FOLDERS"),
    ):
        with pytest.raises(BadSettings, match=variable):
            async with platform.run_platform(tmp_path, "127.0.0.1", 0, settings, apps_port=0):
                pass
        assert list(tmp_path.iterdir()) == []

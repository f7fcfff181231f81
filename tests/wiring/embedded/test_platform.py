"""Parts of `pharos up` without any engine."""

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from ingest_edge.health import Readiness
from pipeline_contracts.settings import BadSettings, Settings
from wiring.embedded import platform


async def test_readiness_shows_warnings_of_the_deployer(monkeypatch: pytest.MonkeyPatch) -> None:
    deployer = SimpleNamespace(failing=None, missing_confinement=None)

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
            stack, Settings(), Path("data"), server, storage, CollectorRegistry(), readiness
        )
        assert {name: reason() for name, reason in readiness.warnings.items()} == {
            "deployer": None,
            "confinement": None,
        }
        deployer.failing, deployer.missing_confinement = "left as they are", "no namespaces"
        assert {name: reason() for name, reason in readiness.warnings.items()} == {
            "deployer": "left as they are",
            "confinement": "no namespaces",
        }
        # Applications that the deployer cannot run do not stop ingest.
        assert readiness.reasons() == {}


async def test_workers_start_before_and_stop_after_the_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = []

    async def serve(*_given: Any) -> None:
        served.append("served")

    monkeypatch.setattr(platform, "_serve", serve)
    # The worker that reports commit statuses refuses the address.
    settings = Settings(github_token="token", github_api_url="ftp://127.0.0.1")
    with pytest.raises(BadSettings, match="PHAROS_GITHUB_API_URL"):
        async with platform.run_platform(tmp_path, "127.0.0.1", 0, settings, apps_port=0):
            pass
    assert served == []

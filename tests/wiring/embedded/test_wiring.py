"""The wiring between the parts of `pharos up`, without any engine."""

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from ingest_edge.health import Readiness
from operator_actions.actions.engines import Engines
from pipeline_contracts.settings import Settings
from tests.support.serve_control import VARIABLE_KEYS
from wiring.embedded import platform


def _engines(store: object = None) -> Engines:
    nothing: Any = None
    return Engines(nothing, nothing, cast(Any, store), VARIABLE_KEYS)


async def test_readiness_reports_what_the_deployer_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    deployer = SimpleNamespace(failing=None, missing_confinement=None)

    @asynccontextmanager
    async def running(*_given: Any, **_named: Any) -> AsyncIterator[Any]:
        yield deployer

    monkeypatch.setattr(platform, "running_local_deployer", running)
    readiness, nothing = Readiness({}), cast(Any, None)
    async with AsyncExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        await platform._start_deployer(
            stack, Settings(), Path("data"), server, _engines(), nothing, CollectorRegistry(), readiness
        )
        assert {name: told() for name, told in readiness.warnings.items()} == {
            "deployer": None,
            "confinement": None,
        }
        deployer.failing, deployer.missing_confinement = "left as they are", "no namespaces"
        assert {name: told() for name, told in readiness.warnings.items()} == {
            "deployer": "left as they are",
            "confinement": "no namespaces",
        }
        # Applications that the deployer cannot run do not stop ingest.
        assert readiness.reasons() == {}

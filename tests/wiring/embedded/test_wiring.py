"""The wiring between the parts of `pharos up`, without any engine."""

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from control_api.limits.report_queue import report_limits
from control_api.limits.request_limits import RequestBounds, RequestLimits
from ingest_edge.health import Readiness
from operator_actions.engines import Engines
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


async def test_the_control_plane_has_limits_and_a_store_for_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    async def close() -> None:
        pass

    def build_control(*arguments: Any, **named: Any) -> Any:
        given.update(named, store=arguments[1])
        return SimpleNamespace(state=SimpleNamespace(log_streams=SimpleNamespace(close=close)))

    @asynccontextmanager
    async def nothing_runs(*_given: Any, **_named: Any) -> AsyncIterator[None]:
        yield

    monkeypatch.setattr(platform, "build_control", build_control)
    for name in ("applying", "following", "reporting"):
        monkeypatch.setattr(platform, name, nothing_runs)
    settings = Settings(max_reports_at_once=3, max_requests_at_once=5)
    reports, receipts = object(), cast(Any, object())
    async with AsyncExitStack() as stack:
        await platform._start_control(stack, settings, _engines(reports), b"key", receipt_store=receipts)
    assert given["report_store"] is reports
    assert given["store"] is receipts
    assert given["report_limits"] == report_limits(3)
    assert isinstance(given["request_limits"], RequestLimits)
    assert given["request_limits"]._bounds == RequestBounds.from_settings(settings)

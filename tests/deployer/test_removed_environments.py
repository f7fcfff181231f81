"""What a deployer leaves of an environment that is removed: nothing, whatever it was at just then."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from control_domain.tables.projects import Environment
from deployer import run_deployer
from deployer.assemble import running_local_deployer
from deployer.drivers.interface import Tenancy
from deployer.drivers.local.driver import LocalDriver
from deployer.identity import hold_identity
from pipeline_contracts.settings import Settings
from tests.support.databases import migrated_database
from tests.support.deploy_stage import Stage, ask, open_stage
from tests.support.faulty_deployer import faulty_deployer
from tests.support.serve_control import VARIABLE_KEYS

# Several looks of the deployer.
_LOOKS_SECONDS = 1.5


def _end_late(monkeypatch: pytest.MonkeyPatch, stage: Stage) -> asyncio.Event:
    """Have a removed environment's end take longer than all sweeps that its removal leads to. Gives what is set behind
    it."""
    is_ended = asyncio.Event()
    keep = LocalDriver.reconcile

    async def keep_late(self: LocalDriver, tenancy: Tenancy, *given: Any, **named: Any) -> None:
        async with stage.sessions() as session:
            is_there = await session.get(Environment, tenancy.environment_id) is not None
        if is_there:
            return await keep(self, tenancy, *given, **named)
        await asyncio.sleep(_LOOKS_SECONDS)
        await keep(self, tenancy, *given, **named)
        is_ended.set()

    monkeypatch.setattr(LocalDriver, "reconcile", keep_late)
    return is_ended


async def test_what_is_swept_while_it_is_being_ended_is_swept_again(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is swept from time to time would hide that nothing else leads to it.
    monkeypatch.setattr(run_deployer, "_SWEEP_SECONDS", 3600.0)
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    async with migrated_database("sqlite", request, tmp_path) as url, open_stage(url, tmp_path) as stage:
        with hold_identity(tmp_path / "deployer") as identity:
            async with running_local_deployer(
                Settings(deploy_drain_seconds=0.2),
                identity,
                server,
                sessions=stage.sessions,
                keys=VARIABLE_KEYS,
                registry=CollectorRegistry(),
                hidden=(),
                stops=True,
            ):
                staging = (await stage.add_project("shop"))["staging"]
                stage.commit("shop")
                assert await stage.wait_final(await stage.deploy(staging)) == "succeeded"
                assert isinstance(await asyncio.to_thread(ask, port, "staging.shop.localhost"), dict)
                is_ended = _end_late(monkeypatch, stage)
                await stage.remove(staging)
                async with asyncio.timeout(90):
                    await is_ended.wait()
                    while await asyncio.to_thread(ask, port, "staging.shop.localhost") != 404:
                        await asyncio.sleep(0.05)


async def test_the_last_environment_is_ended_as_well(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    async with (
        migrated_database("sqlite", request, tmp_path) as url,
        open_stage(url, tmp_path) as stage,
        faulty_deployer(stage, tmp_path / "deployer") as faulty,
    ):
        places = await stage.add_project("shop", "https://git.example/shop.git")
        assert await stage.wait_final(await stage.deploy(places["staging"])) == "succeeded"
        assert await faulty.pids(places["staging"])
        for place in places.values():
            await stage.remove(place)
        try:
            async with asyncio.timeout(30):
                while await faulty.pids(places["staging"]):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(faulty.deployer.failing) from None
        assert faulty.deployer.failing is None

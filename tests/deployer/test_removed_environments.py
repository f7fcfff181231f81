"""A deployer leaves nothing of a removed environment, in whatever state the environment was."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from control_domain.tables.projects import Environment
from deployer import sweeper
from deployer.assemble import running_local_deployer
from deployer.drivers.interface import Tenancy
from deployer.drivers.local.driver import LocalDriver
from deployer.identity import hold_identity
from pipeline_contracts.settings import Settings
from tests.support.databases import migrated_database
from tests.support.deploy_scenario import DeployScenario, fetch_app, open_scenario
from tests.support.faulty_deployer import faulty_deployer
from tests.support.serve_control import VARIABLE_KEYS

# Several polls of the deployer.
_POLLS_SECONDS = 1.5


def _end_late(monkeypatch: pytest.MonkeyPatch, scenario: DeployScenario) -> asyncio.Event:
    """Have the end of a removed environment take longer than all sweeps after the removal. Return an event that is set
    at the end."""
    is_ended = asyncio.Event()
    reconcile = LocalDriver.reconcile

    async def reconcile_late(self: LocalDriver, tenancy: Tenancy, *args: Any, **kwargs: Any) -> None:
        async with scenario.sessions() as session:
            is_there = await session.get(Environment, tenancy.environment_id) is not None
        if is_there:
            return await reconcile(self, tenancy, *args, **kwargs)
        await asyncio.sleep(_POLLS_SECONDS)
        await reconcile(self, tenancy, *args, **kwargs)
        is_ended.set()

    monkeypatch.setattr(LocalDriver, "reconcile", reconcile_late)
    return is_ended


async def test_an_environment_swept_while_it_is_being_ended_is_swept_again(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Periodic sweeps would hide a missing sweep after the end of the environment.
    monkeypatch.setattr(sweeper, "_SWEEP_SECONDS", 3600.0)
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    async with (
        migrated_database("sqlite", request, tmp_path) as url,
        open_scenario(url, tmp_path) as scenario,
    ):
        with hold_identity(tmp_path / "deployer") as identity:
            async with running_local_deployer(
                Settings(deploy_drain_seconds=0.2),
                identity,
                server,
                sessions=scenario.sessions,
                keys=VARIABLE_KEYS,
                registry=CollectorRegistry(),
                hidden=(),
                stops=True,
            ):
                staging = (await scenario.add_project("shop"))["staging"]
                scenario.commit("shop")
                assert await scenario.wait_final(await scenario.deploy(staging)) == "succeeded"
                assert isinstance(await asyncio.to_thread(fetch_app, port, "staging.shop.localhost"), dict)
                is_ended = _end_late(monkeypatch, scenario)
                await scenario.remove(staging)
                async with asyncio.timeout(90):
                    await is_ended.wait()
                    while await asyncio.to_thread(fetch_app, port, "staging.shop.localhost") != 404:
                        await asyncio.sleep(0.05)


async def test_the_last_environment_is_ended_too(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    async with (
        migrated_database("sqlite", request, tmp_path) as url,
        open_scenario(url, tmp_path) as scenario,
        faulty_deployer(scenario, tmp_path / "deployer") as faulty,
    ):
        places = await scenario.add_project("shop", "https://git.example/shop.git")
        assert await scenario.wait_final(await scenario.deploy(places["staging"])) == "succeeded"
        assert await faulty.pids(places["staging"])
        for place in places.values():
            await scenario.remove(place)
        try:
            async with asyncio.timeout(30):
                while await faulty.pids(places["staging"]):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(faulty.deployer.failing) from None
        assert faulty.deployer.failing is None

"""A sweep removes all files that are not live, used or being made."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import update

from control_domain.projects.find import DeployTarget
from control_domain.tables.deployments import Release
from deployer.drivers.interface import Retained, Run
from deployer.drivers.local.driver import LocalDriver
from deployer.drivers.local.folders import _RETAINED_OUTPUTS, Folders
from deployer.environments.desired_states import read_retained
from deployer.sweeper import Sweeper
from tests.support.databases import migrated_database
from tests.support.deploy_scenario import fetch_app, open_scenario
from tests.support.faulty_deployer import FaultyDeployer, faulty_deployer


@asynccontextmanager
async def _deployed(
    request: pytest.FixtureRequest, folder: Path
) -> AsyncIterator[tuple[FaultyDeployer, LocalDriver, dict[str, DeployTarget]]]:
    async with (
        migrated_database("sqlite", request, folder) as url,
        open_scenario(url, folder) as scenario,
        faulty_deployer(scenario, folder / "deployer") as faulty,
    ):
        places = await scenario.add_project("shop", "https://git.example/shop.git")
        assert await scenario.wait_final(await scenario.deploy(places["staging"])) == "succeeded"
        driver = faulty.deployer._context.driver
        assert isinstance(driver, LocalDriver)
        yield faulty, driver, places


async def test_a_sweep_spares_artefacts_that_are_live_used_or_being_built(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _deployed(request, tmp_path) as (faulty, driver, places):
        # No other sweep may run.
        monkeypatch.setattr(Sweeper, "start_if_due", lambda self, loop_time: None)
        while faulty.deployer._sweeper.is_sweeping:
            await asyncio.sleep(0.02)
        folder = faulty.folder / "artefacts"
        live = (await faulty.read_live(places["staging"]))[2]
        for name in ("useless", "used"):
            (folder / name).mkdir()
        async with faulty.scenario.sessions() as session, session.begin():
            # Earlier versions did this when they failed a deployment after its switch.
            await session.execute(update(Release).values(removed_at=datetime.now(UTC)))

        # Old outputs are removed by the same sweep. They must not hide that an artefact was spared.
        outputs = faulty.folder / "outputs" / places["staging"].environment.public_id
        for number in range(1000, 1000 + 2 * _RETAINED_OUTPUTS):
            (outputs / str(number)).mkdir()
        # The remains of a deployer that was killed during a copy.
        (faulty.folder / "sealing" / "1000" / "tree").mkdir(parents=True)

        listed: list[str] = []

        async def read() -> Retained:
            retained = await read_retained(faulty.scenario.sessions)
            if listed:
                (folder / "made meanwhile").mkdir()
            return retained

        list_names = Folders.names

        def names(self: Folders, kind: str) -> list[str]:
            listed.append(kind)
            return list_names(self, kind)

        monkeypatch.setattr(Folders, "names", names)

        run = Run(99, "used", None, {})  # type: ignore[arg-type]
        with driver._artefacts.using(run):
            assert await driver.sweep(read)
            assert set(os.listdir(folder)) == {live, "used", "made meanwhile"}
        assert not await driver.sweep(lambda: read_retained(faulty.scenario.sessions))
        assert os.listdir(folder) == [live]
        assert os.listdir(faulty.folder / "removed") == os.listdir(faulty.folder / "sealing") == []


async def test_a_long_removal_delays_no_deployment(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end, has_begun = asyncio.Event(), asyncio.Event()
    remove = Folders.remove_set_aside

    async def remove_late(self: Folders) -> None:
        has_begun.set()
        await may_end.wait()
        await remove(self)

    async with _deployed(request, tmp_path) as (faulty, _driver, places):
        monkeypatch.setattr(Folders, "remove_set_aside", remove_late)
        await faulty.scenario.remove(places["staging"])
        async with asyncio.timeout(60):
            await has_begun.wait()
        scenario, host = faulty.scenario, "production.shop.localhost"
        assert await scenario.wait_final(await scenario.deploy(places["production"])) == "succeeded"
        assert isinstance(await asyncio.to_thread(fetch_app, faulty.port, host), dict)
        may_end.set()

"""Fixtures: a deployer that can be killed, over one database per module, and a configuration run in progress."""

from collections.abc import AsyncIterator

import pytest

from tests.support.cheap_engines import engines_are_cheap
from tests.support.databases import KINDS, migrated_database, prepare_once
from tests.support.deploy_scenario import open_scenario
from tests.support.deployer_process import deployer_process
from tests.support.fifty_steps import Fifty, prepare_fifty
from tests.support.killed_deployer import KilledDeployer

__all__ = ["engines_are_cheap"]


@pytest.fixture(scope="module")
async def killed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[KilledDeployer]:
    """Yield a deployer on the database of the parameter, by default SQLite."""
    folder = tmp_path_factory.mktemp("killed")
    async with (
        migrated_database(getattr(request, "param", "sqlite"), request, folder) as url,
        open_scenario(url, folder) as scenario,
        deployer_process(folder / "deployer", url) as deployer,
    ):
        places = await scenario.add_project("shop")
        for _ in range(2):
            scenario.commit("shop")
            assert await scenario.wait_final(await scenario.deploy(places["staging"])) == "succeeded"
        yield KilledDeployer(scenario, deployer, places["staging"], places["production"])


@pytest.fixture
async def running_deployer(killed: KilledDeployer) -> AsyncIterator[KilledDeployer]:
    """Yield a running deployer whose environments are in their desired state, independent of the previous test."""
    if not killed.deployer.is_running:
        killed.deployer.start()
    await killed.scenario.wait_settled(killed.deployer)
    yield killed
    killed.deployer.kill_at("")


@pytest.fixture(scope="module", params=KINDS)
async def fifty(request: pytest.FixtureRequest) -> Fifty:
    """A database that tests copy."""
    return await prepare_once(request.param, request, prepare_fifty)

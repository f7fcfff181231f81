"""Fixtures: a deployer that can be killed, over one database per module, and a configuration run in progress."""

from collections.abc import AsyncIterator

import pytest

from tests.support.cheap_engines import engines_are_cheap
from tests.support.databases import KINDS, migrated_database, prepare_once
from tests.support.deploy_stage import open_stage
from tests.support.deployer_process import deployer_process
from tests.support.fifty_steps import Fifty, prepare_fifty
from tests.support.killed_deployer import Killed

__all__ = ["engines_are_cheap"]


@pytest.fixture(scope="module")
async def killed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Killed]:
    """On the engine of the parameter; SQLite by default."""
    folder = tmp_path_factory.mktemp("killed")
    async with (
        migrated_database(getattr(request, "param", "sqlite"), request, folder) as url,
        open_stage(url, folder) as stage,
        deployer_process(folder / "deployer", url) as deployer,
    ):
        places = await stage.add_project("shop")
        for _ in range(2):
            stage.commit("shop")
            assert await stage.wait_final(await stage.deploy(places["staging"])) == "succeeded"
        yield Killed(stage, deployer, places["staging"], places["production"])


@pytest.fixture
async def running_deployer(killed: Killed) -> AsyncIterator[Killed]:
    """Yield a running deployer whose environments are in their desired state, whatever the previous test did."""
    if not killed.deployer.is_running:
        killed.deployer.start()
    await killed.stage.settle(killed.deployer)
    yield killed
    killed.deployer.order("")


@pytest.fixture(scope="module", params=KINDS)
async def fifty(request: pytest.FixtureRequest) -> Fifty:
    """A database that tests copy."""
    return await prepare_once(request.param, request, prepare_fifty)

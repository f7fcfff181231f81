"""After a fault at any point of a deployment, its status, the served release, files and restarts are consistent.

`make test` has a fault at some of the points, of each kind in turn; `make test-full` at every point. The kills are in
`tests/faults/test_killed_deployer.py`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import cycle

import pytest
from sqlalchemy import update

from control_domain.projects.find import DeployTarget
from control_domain.tables.projects import Environment
from tests.support import suites
from tests.support.databases import migrated_database
from tests.support.deploy_scenario import open_scenario
from tests.support.faulty_deployer import FAULTS, FaultyDeployer, faulty_deployer

Begin = Callable[[FaultyDeployer, dict[str, DeployTarget]], Awaitable[tuple[DeployTarget, int | None]]]


@pytest.fixture(scope="module")
async def faulty(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[FaultyDeployer, dict[str, DeployTarget]]]:
    folder = tmp_path_factory.mktemp("faulty")
    async with (
        migrated_database("sqlite", request, folder) as url,
        open_scenario(url, folder) as scenario,
        faulty_deployer(scenario, folder / "deployer") as at_work,
    ):
        places = await scenario.add_project("shop", "https://git.example/shop.git")
        for target in (places["staging"], places["staging"], places["production"]):
            assert await scenario.wait_final(await scenario.deploy(target)) == "succeeded"
        yield at_work, places


async def _deploy(faulty: FaultyDeployer, places: dict[str, DeployTarget]) -> tuple[DeployTarget, int | None]:
    return places["staging"], await faulty.scenario.deploy(places["staging"])


async def _roll_back(
    faulty: FaultyDeployer, places: dict[str, DeployTarget]
) -> tuple[DeployTarget, int | None]:
    to = await faulty.scenario.find_retained(places["staging"])
    return places["staging"], await faulty.scenario.roll_back(places["staging"], to)


async def _promote(
    faulty: FaultyDeployer, places: dict[str, DeployTarget]
) -> tuple[DeployTarget, int | None]:
    source = (await faulty.read_live(places["staging"]))[0]
    return places["production"], await faulty.scenario.promote(
        source, places["staging"], places["production"]
    )


async def _scale(faulty: FaultyDeployer, places: dict[str, DeployTarget]) -> tuple[DeployTarget, int | None]:
    target = places["production"]
    replicas = (await faulty.read_live(target))[3]
    async with faulty.scenario.sessions() as session, session.begin():
        mine = update(Environment).where(Environment.id == target.environment.id)
        await session.execute(mine.values(desired_replicas=3 - replicas))
    return target, None


async def _fail_once(faulty: FaultyDeployer, places: dict[str, DeployTarget], begin: Begin) -> None:
    target, number = await begin(faulty, places)
    if number is not None:
        former = (await faulty.read_live(target))[0]
        status = await faulty.finish(number)
        live = (await faulty.read_live(target))[0]
        assert (status, live) in {("succeeded", number), ("failed", former)}, faulty.points.injected_at
    await faulty.wait_settled(target)
    await faulty.restart_if_stopped()


@pytest.mark.timeout(1500)
@pytest.mark.longer_in_full
@pytest.mark.parametrize(("begin", "faults"), [(_deploy, 6), (_roll_back, 3), (_promote, 3), (_scale, 2)])
async def test_a_fault_at_any_point_leaves_a_consistent_state(
    faulty: tuple[FaultyDeployer, dict[str, DeployTarget]],
    begin: Begin,
    faults: int,
    pytestconfig: pytest.Config,
) -> None:
    deployer, places = faulty
    deployer.points.begin(None, "defect")
    await _fail_once(deployer, places, begin)
    passed = deployer.points.passed
    assert passed > 10
    step = 1 if suites.is_thorough(pytestconfig) else passed // faults
    for fails_at, fault in zip(range(1, passed + 1, step), cycle(FAULTS), strict=False):
        deployer.points.begin(fails_at, fault)
        await _fail_once(deployer, places, begin)
    deployer.points.begin(None, "defect")

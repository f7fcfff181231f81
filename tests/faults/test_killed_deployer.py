"""`kill -9` of the deployer at each step: every deployment reaches a final state, one release is live, and nothing is
left over: `Stage.settle` compares processes, folders and listeners with the database.

`make test` kills at one point per recovery path and per kind of remains (a running step, an artefact without a row, an
instance without a row, two releases at once). `make test-full` kills at every point.
"""

from collections.abc import Collection, Iterable
from typing import Any

import pytest

from tests.support.killed_deployer import BEGINS, CHECKS_OUT, NOT_TWICE, STARTS, SWITCHES, KilledDeployer

_DEPLOY = {
    "before begin_attempt": None,
    "after begin_attempt": CHECKS_OUT,
    "before record.begin_step": CHECKS_OUT,
    "after record.begin_step": CHECKS_OUT,
    "before driver.build": CHECKS_OUT,
    "after fetch": CHECKS_OUT,
    "before record.begin_step 2": CHECKS_OUT,
    "after record.begin_step 2": CHECKS_OUT,
    "after step": CHECKS_OUT,
    "after step 2": CHECKS_OUT,
    "printed building": CHECKS_OUT,
    "before seal": CHECKS_OUT,
    "after driver.build": CHECKS_OUT,
    "before record.add_release": CHECKS_OUT,
    "after record.add_release": NOT_TWICE,
    "before driver.run_release_steps": NOT_TWICE,
    "printed releasing": NOT_TWICE,
    "after driver.run_release_steps": NOT_TWICE,
    "before record.begin_step 3": NOT_TWICE,
    "after record.begin_step 3": STARTS,
    "before driver.start": STARTS,
    "after instance": STARTS,
    "after driver.start": STARTS,
    "before record.make_live": STARTS,
    "after record.make_live": SWITCHES,
    "before driver.switch": SWITCHES,
    "before retire": SWITCHES,
    "after driver.switch": SWITCHES,
    "before record.succeed": SWITCHES,
    "after record.succeed": None,
    "before driver.reconcile": None,
    "after driver.reconcile": None,
}
"""The points of a deployment, and the log line after a kill there; None for no line, because nothing was begun or left
to do."""
_FIRST = [
    "after begin_attempt",
    "printed building",
    "printed releasing",
    "after instance",
    "after record.make_live",
    "before driver.reconcile",
]
_ROLLBACK = {
    "after begin_attempt": BEGINS,
    "before record.skip_build": BEGINS,
    "after record.skip_build": STARTS,
    "after instance": STARTS,
    "before record.make_live": STARTS,
    "after record.make_live": SWITCHES,
    "before retire": SWITCHES,
    "after record.succeed": None,
}
_PROMOTION = {
    "before record.add_release": BEGINS,
    "after record.add_release": NOT_TWICE,
    "after record.begin_step": STARTS,
    "after record.make_live": SWITCHES,
}
_ON_POSTGRES = ["printed building", "after record.add_release", "after instance", "after record.make_live"]


def _points(points: Iterable[str], always: Collection[str]) -> list[Any]:
    """Return all points as parameters; those that are not in `always` are `full`."""
    assert set(always) <= set(points)
    return [point if point in always else pytest.param(point, marks=pytest.mark.full) for point in points]


_DEPLOY_POINTS = _points(
    _DEPLOY,
    {
        "before begin_attempt",
        "printed building",
        "before record.add_release",
        "after record.add_release",
        "printed releasing",
        "after instance",
        "after record.make_live",
        "before retire",
        "after record.succeed",
    },
)


@pytest.mark.parametrize("point", _DEPLOY_POINTS)
async def test_a_deploy_over_a_live_release(running_deployer: KilledDeployer, point: str) -> None:
    await _deploy_and_kill(running_deployer, point)


async def _deploy_and_kill(running_deployer: KilledDeployer, point: str) -> None:
    running_deployer.deployer.kill_at(point)
    running_deployer.scenario.commit("shop")
    number = await running_deployer.scenario.deploy(running_deployer.staging)
    await running_deployer.check_recovery(number, _DEPLOY[point], running_deployer.staging)


# Without a live release, only the point of a failure behaves differently.
@pytest.mark.parametrize("point", _points(_FIRST, {"printed releasing"}))
async def test_a_first_deploy(running_deployer: KilledDeployer, point: str) -> None:
    scenario = running_deployer.scenario
    slug = f"first-{_FIRST.index(point)}"
    place = (await scenario.add_project(slug))["production"]
    scenario.commit(slug)
    running_deployer.deployer.kill_at(point)
    await running_deployer.check_recovery(await scenario.deploy(place), _DEPLOY[point], place)
    await scenario.remove(place)


@pytest.mark.parametrize("point", _points(_ROLLBACK, {"after record.skip_build"}))
async def test_a_rollback(running_deployer: KilledDeployer, point: str) -> None:
    running_deployer.deployer.kill_at(point)
    to = await running_deployer.scenario.find_retained(running_deployer.staging)
    number = await running_deployer.scenario.roll_back(running_deployer.staging, to)
    await running_deployer.check_recovery(number, _ROLLBACK[point], running_deployer.staging)


@pytest.mark.parametrize("point", _points(_PROMOTION, {"before record.add_release"}))
async def test_a_promotion(running_deployer: KilledDeployer, point: str) -> None:
    scenario = running_deployer.scenario
    live = (await scenario.desired_state()).live["staging.shop.localhost"]
    running_deployer.deployer.kill_at(point)
    number = await scenario.promote(live, running_deployer.staging, running_deployer.production)
    await running_deployer.check_recovery(number, _PROMOTION[point], running_deployer.production)


# A separate decorator, so that one fixture serves all points.
@pytest.mark.parametrize("killed", ["postgres"], indirect=True)
@pytest.mark.parametrize("point", _points(_ON_POSTGRES, {"after record.make_live"}))
async def test_a_deploy_on_postgres(running_deployer: KilledDeployer, point: str) -> None:
    await _deploy_and_kill(running_deployer, point)

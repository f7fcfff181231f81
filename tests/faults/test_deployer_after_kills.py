"""Deployments and running processes when the deployer is killed repeatedly or at a bad moment."""

import asyncio
import os
import signal
import time
from contextlib import suppress

import psutil
import pytest

from tests.support.deploy_scenario import fetch_app
from tests.support.killed_deployer import CHECKS_OUT, INTERRUPTED, STARTS, KilledDeployer
from tests.support.waits import poll_until_equal

_HOST = "staging.shop.localhost"
# No other process on this machine sleeps for exactly this time.
_WAITING = f"sleep {10_000 + os.getpid()}"


async def test_a_deployment_fails_after_the_third_kill_in_one_build(running_deployer: KilledDeployer) -> None:
    scenario, deployer = running_deployer.scenario, running_deployer.deployer
    number = 0
    scenario.commit("shop")
    for attempt in range(3):
        deployer.kill_at("printed building")
        if attempt == 0:
            number = await scenario.deploy(running_deployer.staging)
        else:
            deployer.start()
        await deployer.wait_killed()
    deployer.start()
    assert await scenario.wait_final(number) == "failed"
    told = [line for line in await scenario.lines(number) if INTERRUPTED in line]
    assert told == [CHECKS_OUT, CHECKS_OUT, f"{INTERRUPTED}, for the 3rd time: it is not tried again."]
    await scenario.wait_settled(deployer)


async def test_a_deployment_canceled_while_no_deployer_runs_is_not_continued(
    running_deployer: KilledDeployer,
) -> None:
    scenario, deployer = running_deployer.scenario, running_deployer.deployer
    deployer.kill_at("printed building")
    scenario.commit("shop")
    number = await scenario.deploy(running_deployer.staging)
    await deployer.wait_killed()
    await scenario.cancel(number)
    before = await scenario.lines(number)
    deployer.start()
    await scenario.wait_settled(deployer)
    assert (await scenario.read(number)).status == "canceled"
    assert (await scenario.lines(number)) == before and before[-1] == "Canceled."


async def test_a_kill_during_the_cancellation_of_a_build_leaves_no_files(
    running_deployer: KilledDeployer,
) -> None:
    scenario, deployer = running_deployer.scenario, running_deployer.deployer
    scenario.commit("shop", build="(sleep 600 >/dev/null 2>&1 &); echo building; sleep 600")
    number = await scenario.deploy(running_deployer.staging)
    async with asyncio.timeout(90):
        while "building" not in await scenario.lines(number):
            await asyncio.sleep(0.05)
    # Not earlier: the clean-up before the build and the sweeps remove files, too.
    deployer.kill_at("before remove")
    await scenario.cancel(number)
    await deployer.wait_killed()
    deployer.start()
    await scenario.wait_settled(deployer)
    assert (await scenario.read(number)).status == "canceled"


_BUILD_FAILS = ({"build": "exit 3"}, CHECKS_OUT, "Build step 1 of 1")
_START_FAILS = ({"web": "exit 3"}, STARTS, "web.1")


# Each point and each failure once; the other two combinations run with `full`.
@pytest.mark.parametrize(
    ("commit", "told", "reason", "point"),
    [
        pytest.param(*_BUILD_FAILS, "after record.fail", id="build-after"),
        pytest.param(*_START_FAILS, "before record.fail", id="start-before"),
        pytest.param(*_BUILD_FAILS, "before record.fail", id="build-before", marks=pytest.mark.full),
        pytest.param(*_START_FAILS, "after record.fail", id="start-after", marks=pytest.mark.full),
    ],
)
async def test_a_kill_while_a_failure_is_recorded(
    running_deployer: KilledDeployer, point: str, commit: dict[str, str], told: str, reason: str
) -> None:
    scenario, deployer = running_deployer.scenario, running_deployer.deployer
    deployer.kill_at(point)
    scenario.commit("shop", **commit)
    number = await scenario.deploy(running_deployer.staging)
    await deployer.wait_killed()
    deployer.start()
    assert await scenario.wait_final(number) == "failed"
    lines = await scenario.lines(number)
    assert lines[-1].startswith(reason)
    assert [line for line in lines if INTERRUPTED in line] == ([told] if point.startswith("before") else [])
    await scenario.wait_settled(deployer)


async def test_without_release_steps_a_kill_after_the_build_keeps_the_build(
    running_deployer: KilledDeployer,
) -> None:
    running_deployer.deployer.kill_at("after record.add_release")
    running_deployer.scenario.commit("shop", release=None)
    number = await running_deployer.scenario.deploy(running_deployer.staging)
    await running_deployer.check_recovery(number, STARTS, running_deployer.staging)


async def test_running_processes_outlive_a_kill_and_are_adopted(running_deployer: KilledDeployer) -> None:
    scenario, deployer = running_deployer.scenario, running_deployer.deployer
    before = {mark: [each.pid for each in found] for mark, found in deployer.marked().items()}
    answered = fetch_app(deployer.port, _HOST)
    assert isinstance(answered, dict)
    killed_at = time.monotonic()
    deployer.kill()
    deployer.start()
    await poll_until_equal(lambda: fetch_app(deployer.port, _HOST), answered)
    away = time.monotonic() - killed_at
    print(f"no application responded for {away:.2f} s")
    await scenario.wait_settled(deployer)
    assert {mark: [each.pid for each in found] for mark, found in deployer.marked().items()} == before


async def test_processes_that_ended_while_no_deployer_ran_are_restarted(
    running_deployer: KilledDeployer,
) -> None:
    scenario, deployer = running_deployer.scenario, running_deployer.deployer
    deployer.kill()
    for processes in deployer.marked().values():
        for each in processes:
            # The end of a PID namespace's init ends all processes in it.
            with suppress(ProcessLookupError):
                os.kill(each.pid, signal.SIGKILL)
    deployer.start()
    await scenario.wait_settled(deployer)


async def test_a_git_that_waits_for_its_host_does_not_outlive_the_deployer(
    running_deployer: KilledDeployer,
) -> None:
    scenario, deployer = running_deployer.scenario, running_deployer.deployer
    place = (await scenario.add_project("far", "ssh://git@127.0.0.1:9/far.git"))["production"]
    deployer.kill()
    waits = {**deployer.environment, "GIT_SSH_COMMAND": f"{_WAITING};"}
    refuses = {**deployer.environment, "GIT_SSH_COMMAND": "false"}
    deployer.environment = waits
    deployer.start()
    await scenario.wait_settled(deployer)
    number = await scenario.deploy(place)
    async with asyncio.timeout(90):
        while not any(
            _WAITING.split() == (each.info["cmdline"] or [])[:2] for each in psutil.process_iter(["cmdline"])
        ):
            await asyncio.sleep(0.05)
    deployer.kill()
    deployer.environment = refuses
    deployer.start()
    assert await scenario.wait_final(number) == "failed"
    await scenario.wait_settled(deployer)

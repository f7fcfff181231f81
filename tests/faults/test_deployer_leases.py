"""Of two deployers only one has the environment: the other takes over when the lease expires, and the first, which was
only slow, changes nothing afterwards."""

import asyncio
import signal
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from control_domain.tables.deployments import Deployment, DeploymentLine, LiveRelease, Release
from control_domain.tables.runtime import EnvironmentLease, Instance
from tests.support.databases import migrated_database
from tests.support.deploy_scenario import DeployScenario, fetch_app, open_scenario
from tests.support.deployer_process import DeployerProcess, deployer_process
from tests.support.waits import poll_until_equal

# The lease of the first deployer, for whose end the second waits; and that of the second, which must not expire on a
# stalled machine.
_LEASE_SECONDS = 3.0
_LONG_LEASE_SECONDS = 120.0
# The first deployer's build waits twice. Between the waits, while the deployer is stopped, it prints a line that must
# not be stored. The build never ends: a finished one would stay on disk, because a release of its number exists.
_BUILD = (
    "(sleep 600 >/dev/null 2>&1 &); cp version built; echo building; "
    'while [ -e "$HOME/wait" ]; do sleep 0.05; done; echo late; while [ -e "$HOME/hang" ]; do sleep 0.05; done'
)
_HOST = "production.shop.localhost"
_TOLD = (Deployment, DeploymentLine, Release, LiveRelease, Instance)


async def _lease(scenario: DeployScenario) -> EnvironmentLease:
    async with scenario.sessions() as session:
        return (await session.execute(select(EnvironmentLease))).scalar_one()


async def _rows(scenario: DeployScenario) -> dict[str, list[tuple[Any, ...]]]:
    """Return everything that deployers write, except the length of leases."""
    async with scenario.sessions() as session:
        found = {
            table.__tablename__: [
                tuple(row)
                for row in await session.execute(
                    select(*table.__table__.columns).order_by(*table.__table__.primary_key.columns)
                )
            ]
            for table in _TOLD
        }
        held = select(EnvironmentLease.holder, EnvironmentLease.fence, EnvironmentLease.doing)
        found["leases"] = [tuple(row) for row in await session.execute(held)]
    return found


async def _wait_for_line(scenario: DeployScenario, number: int, text: str) -> None:
    async with asyncio.timeout(90):
        while text not in await scenario.lines(number):
            await asyncio.sleep(0.02)


async def _wait_taken(scenario: DeployScenario, first: DeployerProcess) -> None:
    """Wait until the other deployer has the environment, after the lease of the first has expired."""
    until = (await _lease(scenario)).leased_until
    ends_at = time.monotonic() + 90
    while (await _lease(scenario)).holder == first.identity["id"]:
        assert time.monotonic() < ends_at
        await asyncio.sleep(0.02)
    assert datetime.now(UTC) > until


async def _is_settled(scenario: DeployScenario, number: int) -> bool:
    """Return True if the deployer has written the whole deployment: finally its idle state, and the running
    processes."""
    async with scenario.sessions() as session:
        runs = select(Instance.deployment_id, Instance.state)
        found = [tuple(row) for row in await session.execute(runs)]
    return (await _lease(scenario)).doing is None and found == [(number, "running")]


def _answering(deployer: DeployerProcess) -> int | None:
    answer = fetch_app(deployer.port, _HOST)
    return int(answer["mark"].split("/")[2]) if isinstance(answer, dict) else None


# Leases are taken and renewed by conditional updates, and Postgres may run two concurrently.
@pytest.mark.both_databases
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", [pytest.param("sqlite", marks=pytest.mark.full), "postgres"])
async def test_a_deployer_that_lost_its_lease_changes_nothing(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    short = ("--lease-seconds", str(_LEASE_SECONDS))
    long = ("--lease-seconds", str(_LONG_LEASE_SECONDS))
    async with (
        migrated_database(kind, request, tmp_path) as url,
        open_scenario(url, tmp_path) as scenario,
        deployer_process(tmp_path / "first", url, *short) as first,
    ):
        target = (await scenario.add_project("shop"))["production"]
        scenario.commit("shop")
        assert await scenario.wait_final(await scenario.deploy(target)) == "succeeded"
        await scenario.wait_settled(first)
        home = first.folder / "homes" / target.environment.public_id / "build"
        (home / "wait").touch()
        (home / "hang").touch()
        scenario.commit("shop", build=_BUILD)
        number = await scenario.deploy(target)
        await _wait_for_line(scenario, number, "building")
        first.send(signal.SIGSTOP)
        await poll_until_equal(lambda: first.is_stopped, True)
        # The build prints its next line, which no deployer reads now.
        (home / "wait").unlink()
        async with deployer_process(tmp_path / "second", url, *long) as second:
            await _wait_taken(scenario, first)
            assert await scenario.wait_final(number) == "succeeded"
            await poll_until_equal(lambda: _answering(second), number)
            assert (await scenario.lines(number)).count("late") == 1
            async with asyncio.timeout(90):
                while not await _is_settled(scenario, number):
                    await asyncio.sleep(0.05)
            await asyncio.sleep(1)
            before = await _rows(scenario)

            first.send(signal.SIGCONT)
            await poll_until_equal(first.marked, {})
            await poll_until_equal(first.strays, [])
            # The first deployer removes the build that the second repeated, and keeps its own earlier build.
            await poll_until_equal(first.artefacts, ["1"])
            await asyncio.sleep(_LEASE_SECONDS)
            assert await _rows(scenario) == before
            assert first.is_running and _answering(first) is None
            assert _answering(second) == number

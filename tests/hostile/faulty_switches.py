"""Expose a deployer with two tenants to three faults: a failed switch, a wrong variables key, an unavailable database.

    python -m tests.hostile.faulty_switches

Each fault has a deployer on SQLite in this process, with two applications: `shop` meets the fault, and `blog` is its
neighbour. Both have a variable. The program prints the result of the deployment, whether each application still has its
earlier process, and the responses to the callers of both. The proxy is part of the deployer: while the deployer
restarts, connections are refused (`ClientConnectorError`).
"""

import asyncio
import gc
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from control_domain.database import engine as database
from control_domain.projects.find import DeployTarget
from control_domain.sealing import SealingKeys
from control_domain.variables.operations import replace_variables
from deployer.deployments import run_deployment as run_deployment
from deployer.drivers.local.driver import LocalDriver
from tests.hostile.neighbour import keep_sending, print_table
from tests.support.deploy_scenario import ACTOR, DeployScenario, open_scenario
from tests.support.faulty_deployer import FaultyDeployer, faulty_deployer
from tests.support.serve_control import VARIABLE_KEYS

_FAILURES = 20
_AWAY_SECONDS = 1.5
_OBSERVED_SECONDS = 4.0
# Prints numbers until the file `go` is in its home: more lines than the deployer keeps in memory while the database is
# unavailable.
_WAITING_STEP = """echo begun >> "$HOME/runs"
i=0
until [ -e "$HOME/go" ]; do
    for each in $(seq 40); do i=$((i+1)); echo "$i"; done
    sleep 0.02
done"""


@dataclass(frozen=True, slots=True)
class Site:
    """A deployer on a database in a file, with a live release of both applications."""

    faulty: FaultyDeployer
    database: Path
    shop: DeployTarget
    blog: DeployTarget

    @property
    def scenario(self) -> DeployScenario:
        return self.faulty.scenario

    def let_steps_end(self) -> None:
        for home in self.faulty.folder.glob("homes/*/*"):
            (home / "go").touch()

    def let_steps_wait(self) -> None:
        for name in ("go", "runs"):
            for file in self.faulty.folder.glob(f"homes/*/*/{name}"):
                file.unlink()

    def count_runs(self) -> int:
        """Return the number of started runs of the release step."""
        return sum(len(file.read_text().splitlines()) for file in self.faulty.folder.glob("homes/*/*/runs"))


async def fail_switches(site: Site, patch: pytest.MonkeyPatch) -> str:
    """Deploy with a defect in the driver's switch; return the result."""
    real, left = LocalDriver.switch, [_FAILURES]

    async def switch(self: LocalDriver, *given: Any) -> None:
        if left[0]:
            left[0] -= 1
            raise RuntimeError("a defect")
        await real(self, *given)

    patch.setattr(LocalDriver, "switch", switch)
    patch.setattr(run_deployment, "_LONGEST_PAUSE", 0.1, raising=False)
    number = await site.scenario.deploy(site.shop)
    status = await site.scenario.wait_final(number)
    # By then a sweep has removed the remains of the unfinished switch.
    await asyncio.sleep(1.0)
    live, _, artefact, _ = await site.faulty.read_live(site.shop)
    is_there = (site.faulty.folder / "artefacts" / artefact).exists()
    return (
        f"{_FAILURES - left[0]} failures, deployment {status}, {'it' if live == number else 'the one before'} is live, "
        f"its files {'are there' if is_there else 'are GONE'}"
    )


async def restart_with_wrong_key(site: Site, _patch: pytest.MonkeyPatch) -> str:
    """Restart the deployer with a key that opens no variable; return the report of readiness."""
    await site.faulty.stop()
    site.faulty.keys = SealingKeys.read("another key for variables of the test suite")
    await site.faulty.start()
    await asyncio.sleep(_OBSERVED_SECONDS)
    failing = site.faulty.deployer.failing
    return f"readiness: {'nothing' if failing is None else failing[:70] + '…'}"


async def take_database_away(site: Site, _patch: pytest.MonkeyPatch) -> str:
    """Lock the database while a release step prints; return the result of the deployment."""
    site.let_steps_wait()
    number = await site.scenario.deploy(site.shop)
    while len(await site.scenario.lines(number)) < 10:
        await asyncio.sleep(0.05)
    with closing(sqlite3.connect(site.database, isolation_level=None, timeout=30)) as other:
        other.execute("BEGIN IMMEDIATE")
        await asyncio.sleep(_AWAY_SECONDS)
        other.rollback()
    site.let_steps_end()
    status = await site.scenario.wait_final(number)
    lines = await site.scenario.lines(number)
    printed = [int(line) for line in lines if line.isdecimal()]
    lost = max(printed) - len(printed)
    why = "" if status == "succeeded" else f": {lines[-1][:90]}…"
    return (
        f"the step has begun {site.count_runs()} times, {lost} lines of it are lost, deployment {status}{why}"
    )


FAULTS: Mapping[str, tuple[Callable[[Site, pytest.MonkeyPatch], Awaitable[str]], str]] = {
    "a switch fails after its release is live": (fail_switches, "true"),
    "the deployer is restarted with a wrong key": (restart_with_wrong_key, "true"),
    f"the database is away for {_AWAY_SECONDS} s in a release step": (take_database_away, _WAITING_STEP),
}


@asynccontextmanager
async def open_site(folder: Path, release: str) -> AsyncIterator[Site]:
    """Open a site with this release step in an empty folder."""
    path = folder / "control.sqlite"
    async with (
        open_scenario(f"sqlite+aiosqlite:///{path}", folder) as scenario,
        faulty_deployer(scenario, folder / "deployer", release) as faulty,
    ):
        shop, blog = [
            (await scenario.add_project(name, f"https://git.example/{name}.git"))["production"]
            for name in ("shop", "blog")
        ]
        site = Site(faulty, path, shop, blog)
        for target in (shop, blog):
            async with scenario.sessions() as session, session.begin():
                of = DeployTarget(
                    await session.merge(target.environment), await session.merge(target.project)
                )
                now = datetime.now(UTC)
                await replace_variables(session, VARIABLE_KEYS, of, {"KEY": "value"}, ACTOR, now)
            number = await scenario.deploy(target)
            final = asyncio.create_task(scenario.wait_final(number))
            while not final.done():
                site.let_steps_end()
                await asyncio.sleep(0.05)
            assert await final == "succeeded", await scenario.lines(number)
        yield site


async def attack(name: str) -> tuple[object, ...]:
    """Run one fault, and return its row of the table."""
    act, release = FAULTS[name]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        Path(folder).chmod(0o755)
        # The deployer must notice the outage of the database before the outage ends.
        patch.setattr(database, "_BUSY_SECONDS", 0.05, raising=False)
        async with open_site(Path(folder), release) as site:
            # As `pharos up` does: otherwise the slowest response waits for a full garbage collection.
            gc.collect()
            gc.freeze()
            before = await site.faulty.pids(site.shop), await site.faulty.pids(site.blog)
            async with (
                keep_sending(site.faulty.port, "production.shop.localhost") as own,
                keep_sending(site.faulty.port, "production.blog.localhost") as neighbours,
            ):
                result = await act(site, patch)
            after = await site.faulty.pids(site.shop), await site.faulty.pids(site.blog)
    goes_on = [
        "same" if new == old else "new" if new else "NONE" for old, new in zip(before, after, strict=True)
    ]
    return name, result, f"{goes_on[0]} process: {own}", f"{goes_on[1]} process: {neighbours}"


async def _attack_all() -> None:
    rows = [await attack(name) for name in FAULTS]
    print_table(("fault", "result", "its own callers", "the neighbour's callers"), rows)


if __name__ == "__main__":
    asyncio.run(_attack_all())

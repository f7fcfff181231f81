"""While the database is unavailable, a step continues and runs once, as long as the lease lasts."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from control_domain.database import engine as database
from deployer import leases, run_deployer
from deployer.processes.marks import find_marked
from tests.support.databases import KINDS, migrated_database
from tests.support.deploy_scenario import open_scenario
from tests.support.faulty_deployer import FaultyDeployer, faulty_deployer

# The step prints all the time, so that a flush is due during the outage, and prints more than one batch at the end.
_STEP = (
    'echo run >> "$HOME/runs"; i=0; until [ -e "$HOME/go" ]; do i=$((i+1)); echo "$i"; sleep 0.02; done; '
    "for last in $(seq 2000); do echo $((i + last)); done"
)
_OUTAGE_SECONDS = 1.5
_NOT_TWICE = "the release steps may have run in part and are not run twice"


async def _lock(connection: sqlite3.Connection) -> None:
    """Take the lock of writers. SQLite may refuse the lock immediately, despite the timeout, while another process
    opens the file."""
    async with asyncio.timeout(60):
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError:
                await asyncio.sleep(0.02)


@asynccontextmanager
async def _away(url: str) -> AsyncIterator[None]:
    """Make the database unavailable: lock SQLite; end all connections to Postgres, and refuse new ones."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.partition("///")[2], isolation_level=None, timeout=30)
        await _lock(connection)
        try:
            yield
        finally:
            connection.rollback()
            connection.close()
        return
    base, _, name = url.rpartition("/")
    admin = await asyncpg.connect(f"{base}/postgres")
    try:
        await admin.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false")
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1"
        await admin.execute(ended, name)
        yield
    finally:
        await admin.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true")
        await admin.close()


async def _runs(folder: Path) -> Path:
    """Return the file to which the step appends a line when it runs."""
    async with asyncio.timeout(60):
        while not (found := list(folder.glob("homes/*/*/runs"))):
            await asyncio.sleep(0.02)
    return found[0]


async def _wait_step(faulty: FaultyDeployer, number: int) -> None:
    """Wait until the step has ended."""
    async with asyncio.timeout(60):
        while await asyncio.to_thread(find_marked, f"{faulty.identity.id}/step/{number}"):
            await asyncio.sleep(0.05)


@pytest.fixture(params=KINDS)
async def database_url(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[str]:
    # A statement gives up soon, as it does on a database that refuses connections.
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.05)
    async with migrated_database(request.param, request, tmp_path) as url:
        yield url


@pytest.mark.both_databases
@pytest.mark.parametrize("is_longer_than_the_lease", [False, True])
async def test_a_running_step_survives_a_database_outage(
    database_url: str, tmp_path: Path, is_longer_than_the_lease: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease_seconds = 2.0 if is_longer_than_the_lease else 60.0
    monkeypatch.setattr(leases, "LEASE_SECONDS", lease_seconds)
    monkeypatch.setattr(run_deployer, "RENEW_SECONDS", lease_seconds / 4)
    async with (
        open_scenario(database_url, tmp_path) as scenario,
        faulty_deployer(scenario, tmp_path / "deployer", release=_STEP) as faulty,
    ):
        place = (await scenario.add_project("shop", "https://git.example/shop.git"))["production"]
        number = await scenario.deploy(place)
        runs = await _runs(faulty.folder)
        async with _away(database_url):
            if is_longer_than_the_lease:
                await _wait_step(faulty, number)
            else:
                await asyncio.sleep(_OUTAGE_SECONDS)
        runs.with_name("go").touch()
        status = await scenario.wait_final(number)
        lines = await scenario.lines(number)
        # A resumed step does not run again.
        assert runs.read_text() == "run\n"
        if is_longer_than_the_lease:
            assert status == "failed" and _NOT_TWICE in lines[-1]
            return
        printed = [int(line) for line in lines if line.isdecimal()]
        assert (status, printed) == ("succeeded", list(range(1, len(printed) + 1)))
        assert len(printed) > 2000

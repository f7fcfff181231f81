"""Applications survive a wrong setting, database or folder, and readiness reports the problem."""

import asyncio
import json
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncEngine

from control_domain.database.engine import open_engine, open_sessions
from control_domain.projects.find import DeployTarget
from control_domain.sealing import SealingKeys
from control_domain.tables.deployments import Deployment
from control_domain.variables.operations import replace_variables
from deployer import identity_claim, leases, run_deployer, sweeper
from deployer.identity import FolderInUse, hold_identity
from tests.support import suites
from tests.support.databases import migrated_database
from tests.support.deploy_scenario import ACTOR, fetch_app, open_scenario
from tests.support.faulty_deployer import FaultyDeployer, Points, faulty_deployer
from tests.support.serve_control import VARIABLE_KEYS
from tests.support.waits import poll_until

_HOST = "production.shop.localhost"
_POLLS_SECONDS = 0.5


class Site(NamedTuple):
    """A deployer, an application that it runs, and files of databases."""

    faulty: FaultyDeployer
    deploy_target: DeployTarget
    database: Path
    empty: str
    folder: Path
    engines: list[AsyncEngine]

    @property
    def artefact(self) -> Path:
        return self.faulty.folder / "artefacts"

    @property
    def home(self) -> Path:
        return self.faulty.folder / "homes" / self.deploy_target.environment.public_id

    def copy(self, *changes: str) -> Path:
        """Return a copy of the database with these changes."""
        copy = self.folder / "copy.sqlite"
        copy.unlink(missing_ok=True)
        with sqlite3.connect(self.database) as source, sqlite3.connect(copy) as target:
            source.backup(target)
            for change in changes:
                target.execute(change)
        source.close()
        target.close()
        return copy

    def use(self, url: str) -> None:
        """Have the deployer connect to this database at its next start."""
        engine = open_engine(url)
        self.engines.append(engine)
        self.faulty.sessions = open_sessions(engine)


@pytest.fixture(scope="module")
async def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Site]:
    folder = tmp_path_factory.mktemp("misconfigured")
    async with (
        migrated_database("sqlite", request, folder) as url,
        migrated_database("sqlite", request, folder) as empty,
        open_scenario(url, folder) as scenario,
        faulty_deployer(scenario, folder / "deployer") as faulty,
    ):
        deploy_target = (await scenario.add_project("shop", "https://git.example/shop.git"))["production"]
        async with scenario.sessions() as session, session.begin():
            of = DeployTarget(
                await session.merge(deploy_target.environment), await session.merge(deploy_target.project)
            )
            await replace_variables(session, VARIABLE_KEYS, of, {"KEY": "value"}, ACTOR, datetime.now(UTC))
        assert await scenario.wait_final(await scenario.deploy(deploy_target)) == "succeeded"
        # At its next poll the deployer stores the live deployments. Without them it knows no hosts while the database
        # is unavailable.
        await poll_until(lambda: json.loads((folder / "deployer" / "database.json").read_text())["live"])
        with sqlite3.connect(empty.partition("///")[2]) as connection:
            # The token of the database that the tests copy.
            connection.execute("UPDATE database_token SET token = 'another'")
        connection.close()
        yield Site(faulty, deploy_target, Path(url.partition("///")[2]), empty, folder, [])


def _wrong_key(site: Site) -> None:
    site.faulty.keys = SealingKeys.read("another key for variables of the test suite")


def _empty_database(site: Site) -> None:
    site.use(site.empty)


def _use_changed_copy(*changes: str) -> Callable[[Site], None]:
    def use_copy(site: Site) -> None:
        site.use(f"sqlite+aiosqlite:///{site.copy(*changes)}")

    return use_copy


def _no_database(site: Site) -> None:
    site.use(f"sqlite+aiosqlite:///{site.folder}/nowhere/control.sqlite")


def _damaged_database(site: Site) -> None:
    damaged = site.folder / "damaged.sqlite"
    damaged.write_bytes(b"no database" * 1000)
    site.use(f"sqlite+aiosqlite:///{damaged}")


def _no_artefact(site: Site) -> None:
    site.artefact.rename(site.folder / "artefacts aside")


def _no_home(site: Site) -> None:
    site.home.rename(site.folder / "home aside")
    site.home.write_text("no folder")


def _damaged_memory(site: Site) -> None:
    shutil.copy(site.faulty.folder / "database.json", site.folder / "database.json")
    (site.faulty.folder / "database.json").write_text("{")


def _empty_memory(site: Site) -> None:
    shutil.copy(site.faulty.folder / "database.json", site.folder / "database.json")
    (site.faulty.folder / "database.json").write_text("")


def _forget(site: Site) -> None:
    (site.faulty.folder / "database.json").rename(site.folder / "database.json")


def _damaged_identity(site: Site) -> None:
    (site.faulty.folder / "identity.json").write_text("{")


def _another_port(site: Site) -> None:
    site.faulty.port = 0


async def _heal(site: Site) -> None:
    while site.engines:
        await site.engines.pop().dispose()
    site.faulty.keys, site.faulty.sessions = VARIABLE_KEYS, site.faulty.scenario.sessions
    for aside, deploy_target in (("artefacts aside", site.artefact), ("home aside", site.home)):
        if (site.folder / aside).exists():
            deploy_target.unlink() if deploy_target.is_file() else shutil.rmtree(
                deploy_target, ignore_errors=True
            )
            (site.folder / aside).rename(deploy_target)
    if (site.folder / "database.json").exists():
        (site.folder / "database.json").rename(site.faulty.folder / "database.json")


_WRONG: dict[str, tuple[Callable[[Site], None], str | None]] = {
    "the key of variables": (_wrong_key, "not in PHAROS_VARIABLES_KEY"),
    "an empty database": (_empty_database, "not the one whose applications run here"),
    "a database without this version's tables": (
        _use_changed_copy("DROP TABLE database_token"),
        "pharos migrate",
    ),
    "no database": (_no_database, "does not answer now (unable to open database file)"),
    "a damaged database": (_damaged_database, "does not work (file is not a database)"),
    "a backup from before the newest deployment": (
        _use_changed_copy("DELETE FROM live_releases", "DELETE FROM releases", "DELETE FROM deployments"),
        "older than what runs here",
    ),
    "a backup whose numbers were given again": (
        _use_changed_copy("UPDATE deployments SET created_at = '2026-01-01 00:00:00'"),
        "older than what runs here",
    ),
    "a restore in progress": (_use_changed_copy("DELETE FROM live_releases"), "lost the live releases of 1"),
    "a restore that has no environments yet": (
        _use_changed_copy("DELETE FROM live_releases", "DELETE FROM environments"),
        "no environments any more",
    ),
    "a schema of a newer version": (
        _use_changed_copy("UPDATE alembic_version SET version_num = '9999'"),
        "newer version",
    ),
    "a workflow document that cannot be read": (
        _use_changed_copy("UPDATE releases SET workflow = '{\"processes\": 1}'"),
        "workflow document of the release cannot be read",
    ),
    "no artefacts": (_no_artefact, "What was built for this release is not on"),
    "a home that cannot be written": (_no_home, "cannot be written"),
    "a memory that cannot be read": (
        _damaged_memory,
        "database.json in the deployer's folder cannot be read",
    ),
    "a memory emptied by a power failure": (
        _empty_memory,
        "database.json in the deployer's folder is empty, as a power cut",
    ),
    "no memory": (_forget, None),
    "a damaged identity": (_damaged_identity, None),
    "another port of applications": (_another_port, None),
}


async def _until(is_so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await is_so():
            await asyncio.sleep(0.03)


async def _serving(site: Site) -> frozenset[int]:
    """Check that the application responds, and return its processes."""
    answer = await asyncio.to_thread(fetch_app, site.faulty.port, _HOST)
    assert isinstance(answer, dict), (answer, site.faulty.deployer.failing)
    return await site.faulty.pids(site.deploy_target)


async def _wait_reported(site: Site, problem: str | None) -> None:
    async def is_reported() -> bool:
        failing = site.faulty.deployer.failing
        return failing is None if problem is None else problem in (failing or "")

    try:
        await _until(is_reported)
    except TimeoutError:
        raise AssertionError(f"{site.faulty.deployer.failing!r}, not {problem!r}") from None


@pytest.mark.longer_in_full
@pytest.mark.parametrize("wrong", _WRONG)
async def test_running_applications_survive_a_misconfiguration(
    site: Site, wrong: str, pytestconfig: pytest.Config
) -> None:
    misconfigure, problem = _WRONG[wrong]
    faulty = site.faulty
    await _wait_reported(site, None)
    pids = await _serving(site)
    await faulty.stop()
    misconfigure(site)
    await faulty.start()
    try:
        await _wait_reported(site, problem)
        # Several polls, and their effects.
        await asyncio.sleep(_POLLS_SECONDS)
        assert await _serving(site) == pids
    finally:
        await faulty.stop()
        await _heal(site)
        await faulty.start()
    await _wait_reported(site, None)
    assert await _serving(site) == pids
    # One deployment after all of them is enough for every run.
    if suites.is_thorough(pytestconfig) or wrong == list(_WRONG)[-1]:
        assert (
            await faulty.scenario.wait_final(await faulty.scenario.deploy(site.deploy_target)) == "succeeded"
        )


async def test_an_empty_database_on_the_first_start_of_this_version_ends_no_instances(site: Site) -> None:
    """Without `database.json` the deployer knows no hosts, so requests find no application meanwhile."""
    faulty = site.faulty
    await _wait_reported(site, None)
    pids = await _serving(site)
    await faulty.stop()
    _forget(site)
    site.use(site.empty)
    await faulty.start()
    try:
        await _wait_reported(site, "does not know 1 of the 1 environments")
        # Several polls, and their effects.
        await asyncio.sleep(_POLLS_SECONDS)
        assert (
            await faulty.pids(site.deploy_target) == pids
            and site.home.is_dir()
            and any(site.artefact.iterdir())
        )
        assert not (faulty.folder / "database.json").exists()
    finally:
        await faulty.stop()
        await _heal(site)
        await faulty.start()
    await _wait_reported(site, None)
    assert await _serving(site) == pids


async def test_a_resumed_switch_without_the_artefact_does_not_block_the_environment(site: Site) -> None:
    faulty = site.faulty
    await _wait_reported(site, None)
    pids, number = await _serving(site), (await faulty.read_live(site.deploy_target))[0]
    await faulty.stop()
    async with faulty.scenario.sessions() as session, session.begin():
        interrupted = update(Deployment).where(Deployment.id == number)
        await session.execute(interrupted.values(status="running", step="switch", finished_at=None))
    _no_artefact(site)
    await faulty.start()
    try:
        assert await faulty.scenario.wait_final(number) == "succeeded"
        await _wait_reported(site, "What was built for this release is not on")
        assert await _serving(site) == pids
    finally:
        await faulty.stop()
        await _heal(site)
        await faulty.start()
    await _wait_reported(site, None)


async def test_a_database_replaced_under_a_running_deployer_ends_no_instances(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_deployer, "RENEW_SECONDS", 0.1)
    monkeypatch.setattr(sweeper, "_SWEEP_SECONDS", 0.1)
    pids, sessions = await _serving(site), site.faulty.scenario.sessions
    own, other = sessions.kw["bind"], open_engine(site.empty)
    try:
        sessions.configure(bind=other)
        await _wait_reported(site, "not the one whose applications run here")
        await asyncio.sleep(_POLLS_SECONDS)
        assert await _serving(site) == pids
    finally:
        sessions.configure(bind=own)
    await _wait_reported(site, None)
    # Not earlier: a connection in use would never be closed.
    await other.dispose()
    assert await _serving(site) == pids
    assert (
        await site.faulty.scenario.wait_final(await site.faulty.scenario.deploy(site.deploy_target))
        == "succeeded"
    )


async def test_a_deployer_with_another_folder_takes_the_environment_and_ends_no_instances(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The running instances belong to another deployer. Requests get 503, as the proxy has no instance."""
    monkeypatch.setattr(leases, "LEASE_SECONDS", 0.5)
    monkeypatch.setattr(run_deployer, "RENEW_SECONDS", 0.1)
    faulty = site.faulty
    await faulty.restart()
    await _wait_reported(site, None)
    pids, own = await _serving(site), faulty.folder
    await faulty.stop()
    faulty.folder = site.folder / "another folder"
    await faulty.start()
    await _wait_reported(site, "start the deployer with the folder that has it")
    for pid in pids:
        os.kill(pid, 0)
    await faulty.stop()
    faulty.folder = own
    await faulty.start()

    async def is_served() -> bool:
        return isinstance(await asyncio.to_thread(fetch_app, faulty.port, _HOST), dict)

    await _until(is_served)
    await _wait_reported(site, None)
    assert await _serving(site) == pids


@pytest.mark.full
async def test_a_deployer_on_a_copy_of_the_folder_takes_no_environments(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the same machine it does not start; on another machine with the same database it waits."""
    faulty, port = site.faulty, site.faulty.port
    await _wait_reported(site, None)
    pids = await _serving(site)
    shutil.copytree(faulty.folder, tmp_path / "copy")
    with pytest.raises(FolderInUse, match="are copies of one folder"), hold_identity(tmp_path / "copy"):
        pass
    monkeypatch.setattr(identity_claim, "_find_other", lambda *_args: None)
    copy = FaultyDeployer(faulty.scenario, tmp_path / "copy", Points())
    await copy.start()
    try:

        async def is_reported() -> bool:
            problem = "1 environment is held by a deployer with this identity and another name"
            return problem in (copy.deployer.failing or "")

        await _until(is_reported)
        await asyncio.sleep(_POLLS_SECONDS)
        assert faulty.deployer.failing is None and faulty.port == port
        assert await _serving(site) == pids
    finally:
        await copy.stop()

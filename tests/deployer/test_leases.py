"""A deployer keeps its leases and applications as long as no other deployer has them."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import Any, NamedTuple

import pytest
from sqlalchemy import delete, select, text, update

from control_domain.database.clock import database_now
from control_domain.database.engine import Sessions
from control_domain.projects.find import DeployTarget
from control_domain.tables.projects import Environment
from control_domain.tables.runtime import EnvironmentLease
from deployer import database_memory, run_deployer, sweeper
from deployer.deployments.log import utc_now
from deployer.drivers.interface import InstanceStatus, Run, Tenancy
from deployer.drivers.local.driver import LocalDriver
from deployer.environments.write_instances import write_instances
from deployer.identity import Identity
from deployer.leases import take_lease
from tests.support.databases import migrated_database
from tests.support.deploy_scenario import fetch_app, open_scenario
from tests.support.faulty_deployer import FaultyDeployer, faulty_deployer

_HOST = "production.shop.localhost"


class Site(NamedTuple):
    """A deployer and the environment that it runs."""

    faulty: FaultyDeployer
    target: DeployTarget
    idle: DeployTarget
    """An environment with nothing to run."""

    async def change(self, **values: Any) -> None:
        """Change the row of the environment's lease without the deployer."""
        async with self.faulty.scenario.sessions() as session, session.begin():
            mine = EnvironmentLease.environment_id == self.target.environment.id
            await session.execute(update(EnvironmentLease).where(mine).values(**values))

    async def restart(self) -> None:
        """Restart the deployer, and return once it has taken the environment."""
        await self.faulty.restart()

        async def is_well() -> bool:
            return self.faulty.deployer.failing is None

        await _until(is_well)

    async def lease(self) -> EnvironmentLease | None:
        async with self.faulty.scenario.sessions() as session:
            return await session.get(EnvironmentLease, self.target.environment.id)

    async def fence(self) -> int:
        lease = await self.lease()
        return 0 if lease is None else lease.fence

    async def serving(self) -> frozenset[int]:
        """Wait for a response of the application, and return its processes."""
        answer = await asyncio.to_thread(fetch_app, self.faulty.port, _HOST)
        assert isinstance(answer, dict), (answer, self.faulty.deployer.failing)
        return await self.faulty.pids(self.target)


@pytest.fixture(scope="module")
async def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Site]:
    folder = tmp_path_factory.mktemp("leases")
    async with (
        migrated_database("sqlite", request, folder) as url,
        open_scenario(url, folder) as scenario,
        faulty_deployer(scenario, folder / "deployer") as faulty,
    ):
        places = await scenario.add_project("shop", "https://git.example/shop.git")
        target = places["production"]
        assert await scenario.wait_final(await scenario.deploy(target)) == "succeeded"
        yield Site(faulty, target, places["staging"])


async def _shorten_nothing(_sessions: Sessions) -> None:
    """Replace `shorten_leases`, to keep another deployer's lease that a test holds."""


async def _until(is_so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await is_so():
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("has_row", [True, False])
async def test_the_lease_is_taken_again_after_a_restore(
    site: Site, monkeypatch: pytest.MonkeyPatch, has_row: bool
) -> None:
    """The deployer restarted after the backup and has a higher fence, or the backup has no row of the lease."""
    monkeypatch.setattr(run_deployer, "RENEW_SECONDS", 0.05)
    await site.restart()
    pids, before = await site.serving(), await site.fence()
    async with site.faulty.scenario.sessions() as session, session.begin():
        mine = EnvironmentLease.environment_id == site.target.environment.id
        if has_row:
            await session.execute(update(EnvironmentLease).where(mine).values(fence=before - 1))
        else:
            await session.execute(delete(EnvironmentLease).where(mine))

    async def is_taken() -> bool:
        return await site.fence() > before

    await _until(is_taken)
    assert await site.serving() == pids
    assert (
        await site.faulty.scenario.wait_final(await site.faulty.scenario.deploy(site.target)) == "succeeded"
    )


async def test_a_write_with_an_outdated_fence_after_a_restore_ends_no_instances(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write comes before the next renewal: the worker restarts, and the application keeps running."""
    monkeypatch.setattr(run_deployer, "RENEW_SECONDS", 3600.0)
    await site.restart()
    await site.serving()
    ended, real = [], LocalDriver.reconcile

    async def reconcile(
        self: LocalDriver, tenancy: Tenancy, run: Run | None, *args: Any, **kwargs: Any
    ) -> None:
        if run is None:
            ended.append(tenancy)
        await real(self, tenancy, run, *args, **kwargs)

    monkeypatch.setattr(LocalDriver, "reconcile", reconcile)
    await site.change(fence=await site.fence() - 1)
    assert (
        await site.faulty.scenario.wait_final(await site.faulty.scenario.deploy(site.target)) == "succeeded"
    )
    assert await site.serving() and not ended


async def test_instances_of_a_lost_environment_are_ended_once(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_deployer, "shorten_leases", _shorten_nothing)
    monkeypatch.setattr(run_deployer, "RENEW_SECONDS", 0.02)
    await site.restart()
    await site.serving()
    calls, real, renewals = [], LocalDriver.reconcile, 0
    may_end = asyncio.Event()

    async def reconcile(
        self: LocalDriver, tenancy: Tenancy, run: Run | None, *args: Any, **kwargs: Any
    ) -> None:
        if run is None:
            calls.append(tenancy)
            await may_end.wait()
        await real(self, tenancy, run, *args, **kwargs)

    renew = run_deployer.renew_leases

    async def count(*args: Any) -> set[int]:
        nonlocal renewals
        renewals += bool(calls)
        return await renew(*args)

    monkeypatch.setattr(LocalDriver, "reconcile", reconcile)
    monkeypatch.setattr(run_deployer, "renew_leases", count)
    own = await site.lease()
    assert own is not None
    await site.change(holder="dpl_other", holder_name="other", leased_until=database_now(3600))

    async def was_renewed() -> bool:
        return renewals >= 3

    await _until(was_renewed)
    assert len(calls) == 1
    may_end.set()

    async def is_ended() -> bool:
        return not await site.faulty.pids(site.target)

    await _until(is_ended)
    await site.change(leased_until=database_now())

    async def is_served() -> bool:
        return isinstance(await asyncio.to_thread(fetch_app, site.faulty.port, _HOST), dict)

    await _until(is_served)


async def _set_state(site: Site, state: str) -> None:
    async with site.faulty.scenario.sessions() as session, session.begin():
        mine = update(Environment).where(Environment.id == site.target.environment.id)
        await session.execute(mine.values(state=state))


@pytest.mark.parametrize("hibernates", [False, True])
async def test_local_instances_are_served_until_another_deployer_runs_or_hibernates_the_environment(
    site: Site, hibernates: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other deployer took the environment while this one was stopped, and may lack its artefact."""
    monkeypatch.setattr(run_deployer, "shorten_leases", _shorten_nothing)
    monkeypatch.setattr(sweeper, "_SWEEP_SECONDS", 0.05)
    pids, live = await site.serving(), (await site.faulty.read_live(site.target))[0]
    number, sessions = site.target.environment.id, site.faulty.scenario.sessions

    async def is_remembered() -> bool:
        return number in site.faulty.deployer._guard.last_live

    await _until(is_remembered)
    await site.faulty.stop()
    await site.change(leased_until=database_now())
    other = Identity("dpl_other", "other", 1, site.faulty.folder)
    lease = await take_lease(sessions, other, number, "http://other")
    assert lease is not None
    await site.change(leased_until=database_now(3600))
    sweeps, read = 0, sweeper.read_retained

    async def count(*args: Any) -> Any:
        nonlocal sweeps
        retained = await read(*args)
        sweeps += 1
        return retained

    async def is_swept() -> bool:
        return sweeps > 4

    monkeypatch.setattr(sweeper, "read_retained", count)
    for _ in range(2):
        await site.faulty.restart()
        sweeps = 0
        await _until(is_swept)
        assert await site.serving() == pids
    status = InstanceStatus(live, "web", 1, "running", 20_000, 1, 0, None, None)
    if hibernates:
        await _set_state(site, "hibernated")
    else:
        await write_instances(sessions, lease, [status], utc_now())

    async def is_ended() -> bool:
        return not await site.faulty.pids(site.target)

    await _until(is_ended)
    assert await asyncio.to_thread(fetch_app, site.faulty.port, _HOST) == 404
    await _set_state(site, "running")
    await site.change(leased_until=database_now())

    async def is_served() -> bool:
        return isinstance(await asyncio.to_thread(fetch_app, site.faulty.port, _HOST), dict)

    await _until(is_served)


async def test_a_lease_that_ends_too_late_is_shortened(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database's clock was set back, and the holder of the lease has stopped permanently."""
    monkeypatch.setattr(run_deployer, "RENEW_SECONDS", 0.02)
    await site.faulty.restart()
    number, sessions = site.idle.environment.id, site.faulty.scenario.sessions
    lease = await take_lease(
        sessions, Identity("dpl_other", "other", 1, site.faulty.folder), number, "http://other"
    )
    assert lease is not None
    mine = EnvironmentLease.environment_id == number
    async with sessions() as session, session.begin():
        await session.execute(update(EnvironmentLease).where(mine).values(leased_until=database_now(3600)))

    async def is_shortened() -> bool:
        async with sessions() as session:
            query = select(EnvironmentLease).where(mine, EnvironmentLease.leased_until <= database_now(60))
            return (await session.execute(query)).first() is not None

    await _until(is_shortened)


async def _wait_renewed(site: Site, problem: str) -> None:
    """Wait until the deployer reports the problem, and then for two renewals of its lease."""
    ends: list[datetime] = []

    async def is_renewed() -> bool:
        lease = await site.lease()
        if problem in (site.faulty.deployer.failing or "") and lease is not None:
            ends.append(lease.leased_until)
        return len(set(ends)) >= 3

    await _until(is_renewed)


async def test_a_lease_is_renewed_while_a_newer_schema_is_refused(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the lease, another deployer would take the environment, but has no artefact for it."""
    monkeypatch.setattr(run_deployer, "RENEW_SECONDS", 0.02)
    await site.restart()
    pids, before = await site.serving(), await site.fence()
    async with site.faulty.scenario.sessions() as session, session.begin():
        known = (await session.execute(text("SELECT version_num FROM alembic_version"))).scalar_one()
        await session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    try:
        await _wait_renewed(site, "newer version")
    finally:
        async with site.faulty.scenario.sessions() as session, session.begin():
            await session.execute(text("UPDATE alembic_version SET version_num = :known"), {"known": known})
    assert await site.serving() == pids and await site.fence() == before


async def test_a_lease_is_renewed_while_the_memory_is_damaged(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leases from before the start have no worker yet."""
    monkeypatch.setattr(run_deployer, "RENEW_SECONDS", 0.02)
    await site.serving()
    await site.faulty.stop()
    file = site.faulty.folder / "database.json"
    content = file.read_text()
    file.write_text("{")
    await site.faulty.start()
    try:
        await _wait_renewed(site, "database.json in the deployer's folder cannot be read")
    finally:
        await site.faulty.stop()
        file.write_text(content)
        await site.faulty.start()
    await site.serving()


async def test_leases_are_renewed_while_the_disk_does_not_respond(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_deployer, "RENEW_SECONDS", 0.02)
    await site.restart()
    await site.serving()
    may_write, writing = threading.Event(), threading.Event()
    real, renew, renewals = database_memory.write_atomically, run_deployer.renew_leases, 0

    def write_late(*args: Any) -> None:
        writing.set()
        may_write.wait(60)
        real(*args)

    async def count(*args: Any) -> set[int]:
        nonlocal renewals
        renewals += writing.is_set()
        return await renew(*args)

    async def was_renewed() -> bool:
        return renewals >= 3

    monkeypatch.setattr(database_memory, "write_atomically", write_late)
    monkeypatch.setattr(run_deployer, "renew_leases", count)
    try:
        number = await site.faulty.scenario.deploy(site.target)
        await _until(was_renewed)
        assert await site.faulty.scenario.wait_final(number) == "succeeded"
    finally:
        may_write.set()

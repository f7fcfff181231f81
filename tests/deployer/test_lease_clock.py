"""Only the clock of the database decides about leases; clocks of deployers and workers may be wrong."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Boolean, literal, select, update

from control_domain.database.base import UtcDateTime
from control_domain.database.clock import database_now
from control_domain.tables.configuration import ConfigurationRun
from control_domain.tables.runtime import EnvironmentLease
from control_workers import configuration_leases as application_leases
from control_workers.configuration_leases import LeaseHolder
from deployer import leases, run_deployer
from deployer.environments import desired_states
from deployer.identity import Identity
from tests.support.deploy_platform import Platform

_HERE, _THERE = (Identity(f"dpl_{name}", name, 1, Path("/nowhere")) for name in ("here", "there"))
_STEPS = [timedelta(hours=-1), timedelta(seconds=-20), timedelta(seconds=20), timedelta(days=400)]


def _step_clock(monkeypatch: pytest.MonkeyPatch, by: timedelta) -> None:
    """Offset this machine's clock in all modules that use leases."""

    class Stepped(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + by

    for module in (leases, run_deployer, desired_states, application_leases):
        monkeypatch.setattr(module, "datetime", Stepped, raising=False)
        monkeypatch.setattr(module, "utc_now", lambda: Stepped.now(UTC), raising=False)


async def _is(platform: Platform, condition: Any) -> bool:
    async with platform.sessions() as session:
        return bool((await session.execute(select(condition.cast(Boolean)))).scalar_one())


@pytest.mark.both_databases
async def test_the_database_clock_has_fractions_of_a_second_and_compares_with_stored_times(
    platform: Platform,
) -> None:
    async with platform.sessions() as session:
        read = (await session.execute(select(database_now(), database_now(90.5), database_now(-3600)))).one()
    first, later, earlier = read
    assert abs(datetime.now(UTC) - first) < timedelta(seconds=60)
    assert timedelta(seconds=90) < later - first < timedelta(seconds=91)
    assert timedelta(seconds=3599) < first - earlier < timedelta(seconds=3601)
    for seconds in (-30.0, 30.0):
        at = literal(datetime.now(UTC) + timedelta(seconds=seconds), UtcDateTime())
        assert await _is(platform, at < database_now()) == (seconds < 0)


@pytest.mark.both_databases
@pytest.mark.parametrize("step", _STEPS, ids=str)
async def test_a_deployer_with_a_wrong_clock_neither_steals_nor_overstays_a_lease(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, step: timedelta
) -> None:
    number = platform.acme.environment("shop/production").id
    taken = await leases.take_lease(platform.sessions, _THERE, number, "http://there")
    assert taken is not None
    _step_clock(monkeypatch, step)
    assert await leases.take_lease(platform.sessions, _HERE, number, "http://here") is None
    found = await desired_states.read_desired_states(
        platform.sessions, _HERE.id, desired_states.Hostnames("localhost", 8090), number
    )
    assert not found.by_environment
    # A lease that the machine with the other clock renews or takes lasts as long as any other lease.
    assert await leases.renew_leases(platform.sessions, [taken]) == set()
    await _check_lasts(platform, leases.LEASE_SECONDS)
    await leases.end_leases(platform.sessions, [taken])
    assert await leases.take_lease(platform.sessions, _HERE, number, "http://here") is not None
    await _check_lasts(platform, leases.LEASE_SECONDS)


@pytest.mark.both_databases
async def test_a_lease_ends_in_time_after_the_database_clock_was_set_back(
    platform: Platform,
) -> None:
    number = platform.acme.environment("shop/production").id
    taken = await leases.take_lease(platform.sessions, _THERE, number, "http://there")
    assert taken is not None
    for step in (3600, 60):
        async with platform.sessions() as session, session.begin():
            changed = update(EnvironmentLease).values(leased_until=database_now(leases.LEASE_SECONDS + step))
            await session.execute(changed)
        await leases.shorten_leases(platform.sessions)
        await _check_lasts(platform, leases.LEASE_SECONDS)
        # The holder may be running, and has not renewed the lease yet.
        assert await leases.take_lease(platform.sessions, _HERE, number, "http://here") is None
    assert await leases.renew_leases(platform.sessions, [taken]) == set()


async def _check_lasts(platform: Platform, seconds: float) -> None:
    until = select(EnvironmentLease.leased_until).scalar_subquery()
    assert await _is(platform, until <= database_now(seconds))
    assert await _is(platform, until > database_now())


@pytest.mark.both_databases
@pytest.mark.parametrize("step", _STEPS, ids=str)
async def test_a_worker_with_a_wrong_clock_neither_steals_nor_overstays_a_configuration_run(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, step: timedelta
) -> None:
    number = await _running_application(platform)
    first, second = LeaseHolder(timedelta(seconds=30)), LeaseHolder(timedelta(seconds=30))
    async with platform.sessions() as session, session.begin():
        assert await first.claim(session) == number
    _step_clock(monkeypatch, step)
    async with platform.sessions() as session, session.begin():
        assert await second.claim(session) is None
    async with platform.sessions() as session, session.begin():
        await first.renew(session, number)
    until = select(ConfigurationRun.leased_until).where(ConfigurationRun.id == number).scalar_subquery()
    assert await _is(platform, until <= database_now(30))
    async with platform.sessions() as session, session.begin():
        await first.release(session, number)
    async with platform.sessions() as session, session.begin():
        assert await second.claim(session) == number


async def _running_application(platform: Platform) -> int:
    async with platform.sessions() as session, session.begin():
        application = (
            (await session.execute(select(ConfigurationRun).order_by(ConfigurationRun.id))).scalars().first()
        )
        assert application is not None
        application.status, application.finished_at = "running", None
        application.holder = application.leased_until = None
        return application.id

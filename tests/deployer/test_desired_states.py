"""What a deployer sees of what is wanted."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import delete, select, update

from control_domain.audit import Actor
from control_domain.environments.operations import wake_environment
from control_domain.tables.deployments import LiveRelease, Release
from control_domain.tables.projects import Environment
from control_domain.tables.runtime import EnvironmentLease
from deployer.environments.desired_states import DesiredState, read_desired_states
from deployer.environments.names import Hostnames
from deployer.identity import Identity
from deployer.leases import LEASE_SECONDS, is_lost, renew_leases, retake_lease, take_lease
from tests.support.deploy_platform import Platform, Tenant, environment_path

NAME = "shop/production"
NAMES = Hostnames("localhost", 8090)
HERE = Identity("dpl_here", "here", 1, Path("/nowhere"))
THERE = Identity("dpl_there", "there", 1, Path("/nowhere"))


async def _make_live(platform: Platform, tenant: Tenant, name: str) -> int:
    """Have the environment's succeeded deployment be live; gives its number."""
    deployment = tenant.deployments[name.partition("/")[2]]
    environment = tenant.environment(name)
    async with platform.sessions() as session, session.begin():
        release = (
            await session.execute(
                update(Release)
                .where(Release.deployment_id == deployment.id)
                .values(workflow="{}")
                .returning(Release.id)
            )
        ).scalar_one()
        now = datetime.now(UTC)
        session.add(LiveRelease(environment_id=environment.id, release_id=release, since=now))
    return deployment.id


async def _look(platform: Platform, identity: Identity = HERE) -> dict[int, DesiredState]:
    overview = await read_desired_states(platform.sessions, identity.id, NAMES)
    return dict(overview.wanted)


async def _let_pass(platform: Platform, seconds: float) -> None:
    """Make every lease older by so many seconds."""
    async with platform.sessions() as session, session.begin():
        for lease in (await session.execute(select(EnvironmentLease))).scalars():
            lease.leased_until -= timedelta(seconds=seconds)


async def test_what_has_nothing_is_left_out(platform: Platform) -> None:
    assert await _look(platform) == {}


@pytest.mark.both_databases
async def test_what_is_live_and_what_is_queued(platform: Platform) -> None:
    live = await _make_live(platform, platform.acme, NAME)
    await platform.change(NAME, desired_replicas=3, wake_on_request=True)
    staging = platform.acme.places["shop/staging"]
    answer = await platform.call("POST", environment_path(staging, "deploy"))
    wanted = await _look(platform)
    assert set(wanted) == {platform.acme.environment(NAME).id, staging.environment.id}
    first = wanted[platform.acme.environment(NAME).id]
    assert first.live is not None
    # The release's own deployment, as long as no other one has brought it again.
    assert (first.live.deployment_id, first.replicas, first.wakes, first.deployment_id) == (
        live,
        3,
        True,
        None,
    )
    assert wanted[staging.environment.id].deployment_id == answer.data["id"]
    await platform.change(NAME, state="hibernated")
    assert (await _look(platform))[first.tenancy.environment_id].replicas == 0


async def test_names_of_two_accounts_do_not_meet(platform: Platform) -> None:
    """Both have a project `shop`: the one that was first has the short name as well."""
    for tenant in (platform.acme, platform.other):
        await _make_live(platform, tenant, NAME)
    hosts = [wanted.tenancy.hosts for wanted in (await _look(platform)).values()]
    assert hosts == [
        ("production.shop.localhost", "production.shop.acme.localhost"),
        ("production.shop.other.localhost",),
    ]
    addresses = [wanted.tenancy.address for wanted in (await _look(platform)).values()]
    assert addresses == [
        "http://production.shop.localhost:8090",
        "http://production.shop.other.localhost:8090",
    ]


@pytest.mark.both_databases
async def test_what_another_deployer_has_is_not_for_this_one(platform: Platform) -> None:
    await _make_live(platform, platform.acme, NAME)
    number = platform.acme.environment(NAME).id
    first = await take_lease(platform.sessions, THERE, number, "http://there")
    assert first is not None and first.fence == 1
    assert await take_lease(platform.sessions, HERE, number, "http://here") is None
    assert await _look(platform) == {}
    overview = await read_desired_states(platform.sessions, HERE.id, NAMES)
    assert overview.elsewhere == {number}
    assert set(await _look(platform, THERE)) == {number}
    # It is silent for too long.
    await _let_pass(platform, LEASE_SECONDS + 1)
    assert set(await _look(platform)) == {number}
    taken = await take_lease(platform.sessions, HERE, number, "http://here")
    assert taken is not None and taken.fence == 2
    async with platform.sessions() as session:
        lease = await session.get_one(EnvironmentLease, number)
        assert (lease.holder_name, lease.address) == ("here", "http://here")


@pytest.mark.both_databases
async def test_the_same_deployer_takes_it_again_at_once(platform: Platform) -> None:
    await _make_live(platform, platform.acme, NAME)
    number = platform.acme.environment(NAME).id
    fences = []
    for _ in range(3):
        lease = await take_lease(platform.sessions, HERE, number, "http://here")
        assert lease is not None
        fences.append(lease.fence)
    assert fences == [1, 2, 3]


@pytest.mark.both_databases
async def test_only_a_lease_that_another_deployer_has_is_lost(platform: Platform) -> None:
    """A restored backup has a lower fence, or no row yet."""
    number = platform.acme.environment(NAME).id
    lease = await take_lease(platform.sessions, HERE, number, "http://here")
    assert lease is not None
    for change in (update(EnvironmentLease).values(fence=0), delete(EnvironmentLease)):
        before = lease.fence
        async with platform.sessions() as session, session.begin():
            await session.execute(change)
        assert not await is_lost(platform.sessions, lease)
        if await renew_leases(platform.sessions, [lease]):
            assert await retake_lease(platform.sessions, HERE, lease, "http://here")
        assert lease.fence == before + 1
        assert await renew_leases(platform.sessions, [lease]) == set()
    await _let_pass(platform, LEASE_SECONDS + 1)
    assert await take_lease(platform.sessions, THERE, number, "http://there") is not None
    assert await renew_leases(platform.sessions, [lease]) == {number}
    assert not await retake_lease(platform.sessions, HERE, lease, "http://here")
    assert await is_lost(platform.sessions, lease)


async def test_only_what_sleeps_and_may_be_woken_is_woken_by_a_request(platform: Platform) -> None:
    number, actor = platform.acme.environment(NAME).id, Actor("the first request")

    async def wake() -> str:
        async with platform.sessions() as session, session.begin():
            await wake_environment(session, number, actor, datetime.now(UTC))
        async with platform.sessions() as session:
            return (await session.get_one(Environment, number)).state

    await platform.change(NAME, state="hibernated")
    assert await wake() == "hibernated"
    await platform.change(NAME, wake_on_request=True)
    assert await wake() == "running"

"""The desired states that a deployer reads."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import delete, select, update

from control_domain.audit import Actor
from control_domain.environments.operations import wake_environment
from control_domain.tables.deployments import LiveRelease, Release
from control_domain.tables.projects import Environment
from control_domain.tables.runtime import EnvironmentLease
from deployer.environments.desired_states import DesiredState, Hostnames, read_desired_states
from deployer.identity import Identity
from deployer.leases import LEASE_SECONDS, is_lost, renew_leases, retake_lease, take_lease
from tests.support.deploy_platform import Platform, Tenant, environment_path

NAME = "shop/production"
NAMES = Hostnames("localhost", 8090)
HERE = Identity("dpl_here", "here", 1, Path("/nowhere"))
THERE = Identity("dpl_there", "there", 1, Path("/nowhere"))


async def _make_live(platform: Platform, tenant: Tenant, name: str) -> int:
    """Make the environment's succeeded deployment live, and return its ID."""
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


async def _read(platform: Platform, identity: Identity = HERE) -> dict[int, DesiredState]:
    states = await read_desired_states(platform.sessions, identity.id, NAMES)
    return dict(states.by_environment)


async def _age_leases(platform: Platform, seconds: float) -> None:
    """Make every lease older by this number of seconds."""
    async with platform.sessions() as session, session.begin():
        for lease in (await session.execute(select(EnvironmentLease))).scalars():
            lease.leased_until -= timedelta(seconds=seconds)


async def test_environments_with_nothing_to_run_are_omitted(platform: Platform) -> None:
    assert await _read(platform) == {}


@pytest.mark.both_databases
async def test_the_desired_state_has_the_live_release_and_the_active_deployment(platform: Platform) -> None:
    live = await _make_live(platform, platform.acme, NAME)
    await platform.change(NAME, desired_replicas=3, wake_on_request=True)
    staging = platform.acme.places["shop/staging"]
    answer = await platform.call("POST", environment_path(staging, "deploy"))
    states = await _read(platform)
    assert set(states) == {platform.acme.environment(NAME).id, staging.environment.id}
    first = states[platform.acme.environment(NAME).id]
    assert first.live is not None
    # The release's own deployment, unless another deployment has made the release live again.
    assert (first.live.deployment_id, first.replicas, first.wakes, first.deployment_id) == (
        live,
        3,
        True,
        None,
    )
    assert states[staging.environment.id].deployment_id == answer.data["id"]
    await platform.change(NAME, state="hibernated")
    assert (await _read(platform))[first.tenancy.environment_id].replicas == 0


async def test_environments_of_two_accounts_have_different_hosts(platform: Platform) -> None:
    """Both have a project `shop`: the older one has the short name as well."""
    for tenant in (platform.acme, platform.other):
        await _make_live(platform, tenant, NAME)
    hosts = [desired.tenancy.hosts for desired in (await _read(platform)).values()]
    assert hosts == [
        ("production.shop.localhost", "production.shop.acme.localhost"),
        ("production.shop.other.localhost",),
    ]
    addresses = [desired.tenancy.address for desired in (await _read(platform)).values()]
    assert addresses == [
        "http://production.shop.localhost:8090",
        "http://production.shop.other.localhost:8090",
    ]


@pytest.mark.both_databases
async def test_environments_leased_by_another_deployer_have_no_desired_state(platform: Platform) -> None:
    await _make_live(platform, platform.acme, NAME)
    number = platform.acme.environment(NAME).id
    first = await take_lease(platform.sessions, THERE, number, "http://there")
    assert first is not None and first.fence == 1
    assert await take_lease(platform.sessions, HERE, number, "http://here") is None
    assert await _read(platform) == {}
    states = await read_desired_states(platform.sessions, HERE.id, NAMES)
    assert states.leased_elsewhere == {number}
    assert set(await _read(platform, THERE)) == {number}
    # The other deployer has been silent for too long.
    await _age_leases(platform, LEASE_SECONDS + 1)
    assert set(await _read(platform)) == {number}
    taken = await take_lease(platform.sessions, HERE, number, "http://here")
    assert taken is not None and taken.fence == 2
    async with platform.sessions() as session:
        lease = await session.get_one(EnvironmentLease, number)
        assert (lease.holder_name, lease.address) == ("here", "http://here")


@pytest.mark.both_databases
async def test_the_same_deployer_takes_its_lease_again_at_once(platform: Platform) -> None:
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
    await _age_leases(platform, LEASE_SECONDS + 1)
    assert await take_lease(platform.sessions, THERE, number, "http://there") is not None
    assert await renew_leases(platform.sessions, [lease]) == {number}
    assert not await retake_lease(platform.sessions, HERE, lease, "http://here")
    assert await is_lost(platform.sessions, lease)


async def test_a_request_wakes_only_hibernated_environments_that_allow_it(platform: Platform) -> None:
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

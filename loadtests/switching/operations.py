"""Defines the operations on an environment under load, and the versions that may respond during each."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from loadtests.switching.fronts import SwitchingFailed
from loadtests.switching.installation import (
    PRODUCTION,
    STAGING,
    Deployment,
    Installation,
    wait_for,
)
from loadtests.switching.repository import Fault


@dataclass(frozen=True, slots=True)
class Expected:
    """The versions that may respond during an operation, and the processes that it kills."""

    before: str
    """The version that is live at the beginning."""
    after: str
    """The version that is live at the end."""
    since: datetime | None = None
    """From this time on, no request may get a response of the version `before`."""
    kills: tuple[tuple[float, float], ...] = ()
    """For each killed process, the time of the signal and the time of its end, by `time.perf_counter`."""
    note: str = ""


@dataclass(slots=True)
class Versions:
    """The live versions of the environments, and the deployments of staging."""

    live: dict[str, str] = field(default_factory=dict)
    """The live version by host."""
    deployed: dict[str, int] = field(default_factory=dict)
    """The deployments of staging by version, the oldest first."""


Act = Callable[[Installation, Versions], Awaitable[Expected]]


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation, which is one row of the table."""

    name: str
    act: Act
    """A function that runs the operation under load until its status is final."""
    host: str = STAGING
    replicas: int | None = None
    """Number of replicas to scale to before the load begins. None: do not scale."""


async def prepare(shop: Installation) -> Versions:
    """Deploy the first version to production, and the second and then the third version to staging."""
    versions = Versions()
    for host in (PRODUCTION, STAGING, STAGING):
        version = await asyncio.to_thread(shop.repository.commit)
        deployment = await shop.deploy(host)
        await _check(shop, deployment, "succeeded")
        versions.live[host] = version
        if host == STAGING:
            versions.deployed[version] = deployment.id
        await shop.wait_for_replicas(host, 1)
    return versions


async def _check(shop: Installation, deployment: Deployment, status: str) -> None:
    if deployment.status != status:
        log = await shop.log_of(deployment)
        raise SwitchingFailed(f"Deployment {deployment.id} {deployment.status}, not {status}: {log}")


async def _nothing(shop: Installation, versions: Versions) -> Expected:
    await asyncio.sleep(2)
    live = versions.live[STAGING]
    return Expected(live, live, note="for comparison")


async def _deploy(shop: Installation, versions: Versions) -> Expected:
    before = versions.live[STAGING]
    after = await asyncio.to_thread(shop.repository.commit)
    deployment = await shop.deploy(STAGING)
    await _check(shop, deployment, "succeeded")
    versions.live[STAGING] = after
    versions.deployed[after] = deployment.id
    return Expected(before, after, deployment.finished_at, note=f"{before} to {after}")


async def _roll_back(shop: Installation, versions: Versions) -> Expected:
    before = versions.live[STAGING]
    older = list(versions.deployed)
    after = older[older.index(before) - 1]
    deployment = await shop.finish("POST", f"/api/v1/deployments/{versions.deployed[after]}/rollback")
    await _check(shop, deployment, "succeeded")
    versions.live[STAGING] = after
    return Expected(before, after, deployment.finished_at, note=f"{before} to {after}")


async def _promote(shop: Installation, versions: Versions) -> Expected:
    before, after = versions.live[PRODUCTION], versions.live[STAGING]
    target = {"target_environment_id": shop.environments[PRODUCTION]}
    path = f"/api/v1/deployments/{versions.deployed[after]}/promote"
    deployment = await shop.finish("POST", path, target)
    await _check(shop, deployment, "succeeded")
    versions.live[PRODUCTION] = after
    return Expected(before, after, deployment.finished_at, note=f"{before} to {after} on production")


def _scale(count: int) -> Act:
    async def scale(shop: Installation, versions: Versions) -> Expected:
        await shop.scale(STAGING, count)
        live = versions.live[STAGING]
        return Expected(live, live)

    return scale


async def _scale_and_deploy(shop: Installation, versions: Versions) -> Expected:
    """Deploy while the replicas of the live release are still starting."""
    path = f"/api/v1/environments/{shop.environments[STAGING]}/scale"
    await shop.call("PATCH", path, {"replicas": 4})
    expected = await _deploy(shop, versions)
    await shop.wait_for_replicas(STAGING, 4)
    return expected


def _fail(fault: Fault, note: str) -> Act:
    async def deploy(shop: Installation, versions: Versions) -> Expected:
        live = versions.live[STAGING]
        await asyncio.to_thread(shop.repository.commit, fault)
        deployment = await shop.deploy(STAGING)
        await _check(shop, deployment, "failed")
        return Expected(live, live, note=f"failed: {note}; {live} stays")

    return deploy


def _crash(times: int) -> Act:
    async def crash(shop: Installation, versions: Versions) -> Expected:
        kills = []
        instances = (await shop.runtime(STAGING))["instances"]
        for instance in instances[:times]:
            kills.append(await _kill(instance["pid"]))
            await wait_for(partial(_is_back, shop, instance["number"], instance["pid"]), "a restart")
        live = versions.live[STAGING]
        return Expected(live, live, kills=tuple(kills), note=f"SIGKILL x {times}, restarted")

    return crash


async def _is_back(shop: Installation, number: int, pid: int) -> bool:
    instances = (await shop.runtime(STAGING))["instances"]
    return any(
        one["number"] == number and one["state"] == "running" and one["pid"] != pid for one in instances
    )


async def _kill(pid: int) -> tuple[float, float]:
    """Send SIGKILL. Return the period in which the process was dying: until it has ended, the kernel accepts
    connections for it."""
    ended = asyncio.Event()
    handle = os.pidfd_open(pid)
    loop = asyncio.get_running_loop()
    loop.add_reader(handle, ended.set)
    try:
        begun = time.perf_counter()
        os.kill(pid, signal.SIGKILL)
        await ended.wait()
        return begun, time.perf_counter()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


async def _sleep_and_wake(shop: Installation, versions: Versions) -> Expected:
    (before,) = {one["pid"] for one in (await shop.runtime(STAGING))["instances"]}
    path = f"/api/v1/environments/{shop.environments[STAGING]}/runtime"
    await shop.call("PATCH", path, {"state": "hibernated"})

    async def is_awake() -> bool:
        found = await shop.runtime(STAGING)
        pids = [one["pid"] for one in found["instances"] if one["state"] == "running"]
        return found["state"] == "running" and len(pids) == 1 and pids != [before]

    await wait_for(is_awake, "the environment to be awake")
    live = versions.live[STAGING]
    return Expected(live, live, note="hibernated, then woken by the next request")


OPERATIONS = (
    Operation("nothing", _nothing),
    Operation("deploy", _deploy),
    Operation("rollback", _roll_back),
    Operation("promote", _promote, host=PRODUCTION),
    Operation("scale 1 to 5", _scale(5), replicas=1),
    Operation("deploy to 5", _deploy),
    Operation("scale 5 to 2", _scale(2), replicas=5),
    Operation("scale to 4 and deploy", _scale_and_deploy, replicas=2),
    Operation("failing health check", _fail("unhealthy", "not healthy in its time"), replicas=2),
    Operation("process ends at start", _fail("ends", "ended before it was healthy")),
    Operation("crash of 1 of 1", _crash(1), replicas=1),
    Operation("crash of 3 of 3 in turn", _crash(3), replicas=3),
    Operation("hibernate and wake", _sleep_and_wake, replicas=1),
)

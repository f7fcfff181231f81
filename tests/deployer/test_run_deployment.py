"""The order of the steps of a deployment, which stays live once its switch has begun."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import select, update

from control_domain.deployments.progress import describe_steps
from control_domain.tables.deployments import Deployment, LiveRelease, Release
from deployer.application_telemetry import ApplicationTelemetry
from deployer.deployments import run_deployment as run_deployment_module
from deployer.deployments.log import utc_now
from deployer.deployments.record import DeploymentIsLive, DeploymentRecord
from deployer.deployments.run_deployment import DeployContext, run_deployment
from deployer.drivers.interface import (
    BuildResult,
    DeployFailed,
    LogSink,
    ReadRetained,
    ReleaseUnusable,
    Run,
    Source,
    Tenancy,
)
from deployer.identity import Identity
from deployer.leases import Lease, take_lease
from deployer.metrics import DeployerMetrics
from tests.support.deploy_platform import Platform, environment_path
from tests.support.deployment_rows import (
    begin_deployment,
    change_deployment,
    complete_deployment,
    read_outcome,
)
from tests.support.serve_control import VARIABLE_KEYS

NAME = "shop/production"


@dataclass
class RecordingDriver:
    """Runs nothing; records each call, and whether the switch lock was held."""

    switch_lock: asyncio.Lock
    at_switch: Callable[[], None] = lambda: None
    at_start: Callable[[], None] = lambda: None
    calls: list[tuple[str, bool]] = field(default_factory=list)

    async def build(
        self, tenancy: Tenancy, source: Source, variables: Mapping[str, str], log: LogSink
    ) -> BuildResult:
        raise AssertionError("a rollback builds nothing")

    async def run_release_steps(self, tenancy: Tenancy, run: Run, log: LogSink) -> None:
        self.calls.append(("run_release_steps", self.switch_lock.locked()))

    async def start(self, tenancy: Tenancy, run: Run, replicas: int, log: LogSink) -> None:
        self.calls.append(("start", self.switch_lock.locked()))
        self.at_start()

    async def switch(self, tenancy: Tenancy, run: Run) -> None:
        self.calls.append(("switch", self.switch_lock.locked()))
        self.at_switch()

    async def reconcile(
        self, tenancy: Tenancy, run: Run | None, replicas: int, *, wakes: bool = False
    ) -> None:
        raise AssertionError("not called by a deployment")

    async def sweep(self, read_retained: ReadRetained) -> bool:
        raise AssertionError("not called by a deployment")


async def _deploy(platform: Platform) -> int:
    """Queue a deployment and make it live; return its ID."""
    answer = await platform.call("POST", environment_path(platform.acme.places[NAME], "deploy"))
    async with platform.sessions() as session, session.begin():
        await begin_deployment(session, answer.data["id"], datetime.now(UTC))
        await complete_deployment(session, answer.data["id"], datetime.now(UTC))
    return int(answer.data["id"])


async def _lease(platform: Platform) -> Lease:
    identity = Identity("dpl_test", "here", 1, Path("/nowhere"))
    lease = await take_lease(platform.sessions, identity, platform.acme.environment(NAME).id, "http://here")
    assert lease is not None
    return lease


async def _run_deployment(platform: Platform, number: int, driver: RecordingDriver) -> None:
    environment = platform.acme.environment(NAME)
    context = DeployContext(
        platform.sessions,
        VARIABLE_KEYS,
        driver,
        asyncio.Semaphore(1),
        10**6,
        DeployerMetrics(),
        ApplicationTelemetry(platform.sessions, VARIABLE_KEYS, utc_now, url=None),
    )
    tenancy = Tenancy(environment.id, 1, environment.public_id, (), "http://here")
    await run_deployment(
        context, await _lease(platform), tenancy, number, asyncio.Event(), driver.switch_lock
    )


def _fail_with(*errors: Exception) -> Callable[[], None]:
    left = list(errors)

    def fail() -> None:
        if left:
            raise left.pop(0)

    return fail


@pytest.mark.parametrize(
    "at_switch",
    [lambda: None, _fail_with(DeployFailed("the proxy is away"), RuntimeError("a defect"))],
    ids=["at once", "when the switch failed twice"],
)
async def test_a_rollback_starts_and_switches_under_the_switch_lock(
    platform: Platform, at_switch: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_deployment_module, "_FIRST_PAUSE", 0.0)
    earlier, _later = [await _deploy(platform) for _ in range(2)]
    answer = await platform.call("POST", f"/v1/deployments/{earlier}/rollback")
    environment = platform.acme.environment(NAME)
    switch_lock = asyncio.Lock()
    driver = RecordingDriver(switch_lock, at_switch)
    await _run_deployment(platform, answer.data["id"], driver)

    assert set(driver.calls) == {("start", True), ("switch", True)}
    assert [name for name, _ in driver.calls[:2]] == ["start", "switch"]
    async with platform.sessions() as session:
        # The release is live before the switch: a failed switch does not undo this.
        deployment = await session.get_one(Deployment, answer.data["id"])
        assert deployment.status == "succeeded"
        assert [step["step"] for step in describe_steps(deployment)] == ["start", "switch"]
        live = await session.get_one(LiveRelease, environment.id)
    assert live.deployment_id == answer.data["id"]


@pytest.mark.parametrize("wrong", ["files", "workflow"])
async def test_a_live_release_that_cannot_run_here_does_not_block_the_environment(
    platform: Platform, wrong: str
) -> None:
    number = await _deploy(platform)
    await change_deployment(platform, number, status="running", step="switch")
    if wrong == "workflow":
        async with platform.sessions() as session, session.begin():
            await session.execute(
                update(Release).where(Release.deployment_id == number).values(workflow="{}")
            )

    def refuse() -> None:
        raise ReleaseUnusable("The files are not on here.")

    await _run_deployment(platform, number, RecordingDriver(asyncio.Lock(), refuse))
    status, line = await read_outcome(platform, number)
    reason = {"files": "The files are not on here.", "workflow": "The workflow document"}[wrong]
    assert (status, line.startswith(f"The release is live, but it cannot run here: {reason}")) == (
        "succeeded",
        True,
    )
    async with platform.sessions() as session:
        live = await session.get_one(LiveRelease, platform.acme.environment(NAME).id)
        assert live.deployment_id == number
        assert (await session.get_one(Release, live.release_id)).removed_at is None


async def test_a_deployment_whose_release_is_live_cannot_fail(platform: Platform) -> None:
    number = await _deploy(platform)
    lease = await _lease(platform)
    with pytest.raises(DeploymentIsLive, match="a defect"):
        await DeploymentRecord(platform.sessions, lease, number).fail("a defect")
    async with platform.sessions() as session:
        query = select(Release.removed_at).where(Release.deployment_id == number)
        assert (await session.execute(query)).scalar_one() is None

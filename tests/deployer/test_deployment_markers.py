"""Deployments of the deployer mark telemetry: an exception names the version in which it first occurred."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import select

from analytics_queries.telemetry.time_range import TimeRange, to_nanoseconds
from control_domain.recorded_deployments.operations import DeploymentReport, record_deployment
from control_domain.tables.deployments import Deployment, Release
from control_domain.tables.projects import Environment
from control_domain.tables.recorded_deployments import RecordedDeployment
from control_domain.telemetry.exceptions import Decisions, GroupFilter, list_groups
from control_domain.telemetry.releases import Deployed, Releases, read_deployed
from deployer.application_telemetry import ApplicationTelemetry
from deployer.deployments.log import utc_now
from deployer.deployments.run_deployment import DeployContext, run_deployment
from deployer.drivers.interface import DeployFailed, Tenancy
from deployer.identity import Identity
from deployer.leases import Lease, take_lease
from deployer.metrics import DeployerMetrics
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from tests.deployer.test_run_deployment import RecordingDriver
from tests.support.deploy_platform import Platform
from tests.support.deployment_rows import WORKFLOW
from tests.support.serve_control import VARIABLE_KEYS

NAME = "shop/production"
_COMMIT = "0123456789abcdef0123456789abcdef01234567"
_NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def _row(minute: int, version: str, commit: str | None = None) -> Deployed:
    return Deployed(version, _NOON + timedelta(minutes=minute), commit)


_OWN = _row(10, _COMMIT[:12], _COMMIT)


@pytest.mark.parametrize(
    ("recorded", "versions"),
    [
        ([], {0: None}),
        ([_OWN], {9: None, 10: _COMMIT[:12], 99: _COMMIT[:12]}),
        # Both rows describe one deployment, in either order. The deployment counts once, with its reported name.
        ([_OWN, _row(12, "1.4.0", _COMMIT)], {9: None, 10: "1.4.0", 11: "1.4.0", 12: "1.4.0"}),
        ([_row(8, "1.4.0", _COMMIT[:7].upper()), _OWN], {7: None, 8: "1.4.0", 10: "1.4.0"}),
        ([_OWN, _row(12, _COMMIT[:8])], {10: _COMMIT[:8], 12: _COMMIT[:8]}),
        # Another commit, or none, is another deployment.
        ([_OWN, _row(12, "1.4.0", "f" * 40)], {11: _COMMIT[:12], 12: "1.4.0"}),
        ([_OWN, _row(12, "1.4.0")], {11: _COMMIT[:12], 12: "1.4.0"}),
        # Too short to name a commit.
        ([_OWN, _row(12, "0", "0")], {11: _COMMIT[:12], 12: "0"}),
        # A rollback brings the reported name back.
        (
            [_row(1, "1.4.0", _COMMIT), _row(5, "1.5.0", "f" * 40), _OWN],
            {1: "1.4.0", 5: "1.5.0", 10: "1.4.0"},
        ),
    ],
)
def test_the_live_version_at_each_moment(recorded: list[Deployed], versions: dict[int, str | None]) -> None:
    releases = Releases(recorded)
    live = {minute: releases.live_at(_NOON + timedelta(minutes=minute)) for minute in versions}
    found = {minute: None if deployed is None else deployed.version for minute, deployed in live.items()}
    assert found == versions


async def _run_deployment(
    platform: Platform, lease: Lease, deployment_id: int, at_start: Callable[[], None] = lambda: None
) -> tuple[str, str]:
    """Run the deployment; return its status and the commit of its release."""
    switch_lock = asyncio.Lock()
    driver = RecordingDriver(switch_lock, at_start=at_start)
    context = DeployContext(
        platform.sessions,
        VARIABLE_KEYS,
        driver,
        asyncio.Semaphore(1),
        10**6,
        DeployerMetrics(),
        ApplicationTelemetry(platform.sessions, VARIABLE_KEYS, utc_now, url=None),
    )
    environment = platform.acme.environment(NAME)
    tenancy = Tenancy(environment.id, 1, environment.public_id, (), "http://here")
    await run_deployment(context, lease, tenancy, deployment_id, asyncio.Event(), switch_lock)
    async with platform.sessions() as session:
        brought = await session.get_one(Deployment, deployment_id)
        source = brought.rolled_back_to_id or brought.promoted_from_id
        query = select(Release.revision).where(Release.deployment_id == source)
        return brought.status, (await session.execute(query)).scalar_one()


async def test_promotions_and_rollbacks_mark_telemetry_at_their_switch(
    platform: Platform, column_store: ChdbColumnStore
) -> None:
    environment = platform.acme.environment(NAME)
    async with platform.sessions() as session, session.begin():
        for type_, commit in (("staging", "a" * 40), ("production", "b" * 40)):
            deployment = platform.acme.deployments[type_].id
            query = select(Release).where(Release.deployment_id == deployment)
            release = (await session.execute(query)).scalar_one()
            release.revision, release.workflow = commit, json.dumps(WORKFLOW)
    identity = Identity("dpl_test", "here", 1, Path("/nowhere"))
    lease = await take_lease(platform.sessions, identity, environment.id, "http://here")
    assert lease is not None

    target = {"target_environment_id": environment.public_id}
    staging, production = (platform.acme.deployments[type_].id for type_ in ("staging", "production"))
    promoted = await platform.call("POST", f"/v1/deployments/{staging}/promote", target)
    assert await _run_deployment(platform, lease, promoted.data["id"]) == ("succeeded", "a" * 40)
    rolled_back = await platform.call("POST", f"/v1/deployments/{production}/rollback")
    assert await _run_deployment(platform, lease, rolled_back.data["id"]) == ("succeeded", "b" * 40)

    def fail() -> None:
        raise DeployFailed("web.1 was not healthy")

    failed = await platform.call("POST", f"/v1/deployments/{staging}/promote", target)
    assert await _run_deployment(platform, lease, failed.data["id"], fail) == ("failed", "a" * 40)

    async with platform.sessions() as session, session.begin():
        query = select(RecordedDeployment).where(RecordedDeployment.environment_id == environment.id)
        marks = (await session.execute(query.order_by(RecordedDeployment.id))).scalars().all()
        assert [(mark.deployment_id, mark.version) for mark in marks] == [
            (f"pharos/{promoted.data['id']}", "a" * 12),
            (f"pharos/{rolled_back.data['id']}", "b" * 12),
        ]
        # CI reports the promotion later too, which is not another deployment.
        report = DeploymentReport(uuid4(), "1.4.0", commit_sha="a" * 40, deployed_at=marks[0].deployed_at)
        await record_deployment(session, environment.public_id, report, datetime.now(UTC))
    first, second = (mark.deployed_at for mark in marks)
    moments = {
        "before": first - timedelta(milliseconds=5),
        "promoted": first + timedelta(milliseconds=1),
        "rolled back": second + timedelta(milliseconds=1),
        "after the failure": datetime.now(UTC),
    }
    await _store_exceptions(column_store, environment.public_id, moments)
    async with platform.sessions() as session:
        deployed = await read_deployed(session, await session.get_one(Environment, environment.id))
    decisions = Decisions(environment.public_id, {}, deployed)
    within = TimeRange(to_nanoseconds(first - timedelta(hours=1)), to_nanoseconds(datetime.now(UTC)))
    groups, _ = await list_groups(column_store, decisions, within, GroupFilter(), None, 100)
    versions = {group["message"]: group["first_deployment"] for group in groups}
    assert {message: deployed and deployed["version"] for message, deployed in versions.items()} == {
        "before": None,
        "promoted": "1.4.0",
        "rolled back": "b" * 12,
        "after the failure": "b" * 12,
    }


async def _store_exceptions(
    store: ChdbColumnStore, environment_id: str, moments: dict[str, datetime]
) -> None:
    """Store an exception for each moment, with a type named after the moment."""
    log = uuid4().hex
    lines = b"".join(
        json.dumps(
            {
                "log": log,
                "log_offset": 0,
                "position": position,
                "environment_id": environment_id,
                "type": "exception",
                "title": title,
                "fingerprint": title,
                "timestamp": at.isoformat(),
                "received_at": at.isoformat(),
            }
        ).encode()
        + b"\n"
        for position, (title, at) in enumerate(moments.items())
    )
    await store.insert("pharos.telemetry_events", lines, len(moments), log)

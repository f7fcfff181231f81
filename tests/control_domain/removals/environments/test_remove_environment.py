"""Environments are removed with all their rows and no others, on both databases."""

from collections.abc import Iterable
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.base import Base
from control_domain.deployments.operations import tail_log
from control_domain.deployments.queue_deployment import DeploymentRequest, queue_deployment
from control_domain.monitors.operations import live_monitor_keys
from control_domain.projects.find import DeployTarget
from control_domain.projects.operations import live_ingest_keys
from control_domain.removals.remove_environment import RemovedEnvironment, remove_environment
from control_domain.tables.deployments import Deployment, LiveRelease, Release
from control_domain.tables.exceptions import ExceptionStatus
from control_domain.tables.monitors import (
    CreatedHeartbeat,
    Heartbeat,
    HeartbeatLogEntry,
    HeartbeatRun,
    HeartbeatState,
    MonitorKey,
    Queue,
    QueueState,
    QueueWorker,
)
from control_domain.tables.notifications import AlertEvent, AlertState, AlertThreshold, NotificationRule
from control_domain.tables.projects import Environment, EnvironmentLock, EnvironmentPingKey, IngestKey
from control_domain.tables.recorded_deployments import RecordedDeployment
from control_domain.tables.runtime import EnvironmentLease, Instance
from control_domain.tables.variables import ProtectedVariable, VariableChange, VariableSet
from control_domain.tables.webhooks import ClosingPreview, WaitingPush
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.deploy_states import ACTIVE_STATUSES
from pipeline_contracts.errors import Conflict, DeployRunning
from tests.support.managed_project import NOW, REVISION, SOURCE, ManagedProject

OF_ENVIRONMENTS = {
    AlertThreshold,
    ClosingPreview,
    CreatedHeartbeat,
    EnvironmentLease,
    EnvironmentLock,
    EnvironmentPingKey,
    ExceptionStatus,
    Heartbeat,
    HeartbeatLogEntry,
    HeartbeatRun,
    HeartbeatState,
    IngestKey,
    Instance,
    LiveRelease,
    MonitorKey,
    NotificationRule,
    ProtectedVariable,
    Queue,
    QueueState,
    QueueWorker,
    RecordedDeployment,
    Release,
    VariableChange,
    VariableSet,
    WaitingPush,
}
"""All tables with rows that refer to an environment, directly or through others, and are removed with it."""
KEPT = {"deployments", "deployment_lines"}
AGREED = {"lowered": ["the environment itself"]}


def _find_referring(to: str) -> set[str]:
    """Return the tables with a direct or indirect foreign key to this one."""
    found: set[str] = set()
    ahead = [to]
    while ahead:
        of = ahead.pop()
        for table in Base.metadata.tables.values():
            if table.name not in found and any(key.column.table.name == of for key in table.foreign_keys):
                found.add(table.name)
                ahead.append(table.name)
    return found


def test_every_table_that_refers_to_an_environment_is_known() -> None:
    """A new table has to be removed with the environment, and to be filled below."""
    assert _find_referring("environments") == {table.__tablename__ for table in OF_ENVIRONMENTS} | KEPT


async def _fill(managed: ManagedProject, name: str) -> list[str]:
    """Add a row in each of these tables, and a deployment that waits; return the keys."""
    objects = managed.objects
    key = await objects.add_ingest_key(name)
    heartbeat = await objects.add_heartbeat(environment=name)
    queue = await objects.add_queue(environment=name)
    revoked = await objects.add_ingest_key(name)
    await objects.revoke_ingest_key(revoked.id)
    await managed.set_variables("A=1\n", name)
    await managed.protect_variables("A", environment=name)
    await managed.change_settings(name, deploys_need_approval=True, variables_need_approval=True)
    await managed.propose_variables("A=2\n", name)
    async with managed.engines.sessions() as session, session.begin():
        environment = (await managed.read_target(session, name)).environment
        waiting = await _queue(managed, session, environment)
        variables = (
            await session.execute(select(VariableSet).where(VariableSet.environment_id == environment.id))
        ).scalar_one()
        done = await _queue(managed, session, environment)
        done.status, done.approved_variables_id = "succeeded", variables.id
        release = Release(
            environment_id=environment.id,
            deployment_id=done.id,
            revision=REVISION,
            artefact="releases/1",
            variables_id=variables.id,
            created_at=NOW,
        )
        session.add(release)
        await session.flush()
        waiting.rolled_back_to_id = done.id
        session.add_all(_make_states(environment.id, release, heartbeat.id, queue.id))
        session.add_all(_make_webhook_rows(environment.id, managed.repository.id))
        session.add_all(_make_notification_rows(environment.id, managed.project.account_id))
    await managed.lock("sale", name)
    return [key.secret, *heartbeat.secrets, *queue.secrets]


async def _queue(managed: ManagedProject, session: AsyncSession, environment: Environment) -> Deployment:
    target = DeployTarget(environment, managed.project)
    return await queue_deployment(session, target, DeploymentRequest("api"), managed.actor(), NOW)


def _make_states(environment: int, release: Release, heartbeat: int, queue: int) -> Iterable[Any]:
    yield LiveRelease(environment_id=environment, release_id=release.id, since=NOW)
    yield EnvironmentLease(
        environment_id=environment, holder="d1", holder_name="here", fence=1, leased_until=NOW
    )
    yield Instance(
        environment_id=environment,
        deployment_id=release.deployment_id,
        process="web",
        number=1,
        state="running",
        restarts=0,
    )
    yield RecordedDeployment(
        environment_id=environment, deployment_id="d1", version="1", deployed_at=NOW, recorded_at=NOW
    )
    yield ExceptionStatus(environment_id=environment, group_id="0" * 16, status="ignored", changed_at=NOW)
    digest = digest_credential(f"ping key of {environment}")
    yield EnvironmentPingKey(environment_id=environment, digest=digest, created_at=NOW)
    yield HeartbeatLogEntry(heartbeat_id=heartbeat, entry_id="e1", received_ms=1)
    yield CreatedHeartbeat(heartbeat_id=heartbeat, created_ms=1)
    yield HeartbeatRun(heartbeat_id=heartbeat, run_id="r1", first_ms=1, started_ms=1)
    yield QueueState(queue_id=queue, snapshot_id="s1", observed_us=1, received_ms=1, pending=1)
    yield QueueWorker(queue_id=queue, worker_id="w1", sequence=1, status="idle", received_ms=1)


def _make_webhook_rows(environment: int, repository: int) -> Iterable[Any]:
    whose = {"environment_id": environment, "source": "webhook 203.0.113.7", "created_at": NOW}
    yield WaitingPush(**whose, repository_id=repository, branch="main", trigger="push")
    yield ClosingPreview(**whose)


def _make_notification_rows(environment: int, account: int) -> Iterable[Any]:
    yield AlertThreshold(
        environment_id=environment,
        name="slow",
        kind="queue.wait",
        target="mail",
        threshold=60,
        recovery=30,
        window_seconds=60,
        pending_seconds=0,
        severity="warning",
        created_at=NOW,
    )
    yield AlertState(key=f"process {environment} web", phase="pending", since=NOW, evaluated_at=NOW)
    yield NotificationRule(
        account_id=account,
        name=f"of environment {environment}",
        environment_id=environment,
        recipients="[]",
        created_at=NOW,
    )


async def _remove(managed: ManagedProject) -> RemovedEnvironment:
    """Remove the environment with its gate, as two people do by a configuration, and revoke its keys."""
    async with managed.engines.sessions() as session, session.begin():
        target = await managed.read_target(session)
        removed = await remove_environment(session, target, managed.actor(), NOW, AGREED)
    for digest in removed.digests:
        await managed.engines.directory.revoke(digest)
    return removed


async def _count_rows(managed: ManagedProject) -> dict[str, int]:
    return {table.__tablename__: await managed.count(table) for table in OF_ENVIRONMENTS}


async def test_an_environment_is_removed_with_all_its_rows(managed: ManagedProject) -> None:
    staging = (await managed.add_environment("Staging")).environment
    kept = await _fill(managed, staging.public_id)
    before = await _count_rows(managed)
    assert all(before.values())
    keys = await _fill(managed, managed.environment.public_id)
    assert await _count_rows(managed) == {table: 2 * count for table, count in before.items()}
    removed = await _remove(managed)
    assert removed.counts == {"keys": 6, "heartbeats": 1, "queues": 1, "canceled": 1}
    assert await _count_rows(managed) == before
    assert await managed.count(Environment) == await managed.count(AlertState) == 1
    find = managed.engines.directory.find
    assert [await find(digest_credential(key)) for key in keys] == [None] * 4
    assert None not in [await find(digest_credential(key)) for key in kept]
    async with managed.engines.sessions() as session:
        entries = [*await live_ingest_keys(session, NOW), *await live_monitor_keys(session, NOW)]
    assert {entry.environment_id for entry in entries} == {staging.public_id}
    assert (await managed.read_audit_log())[0] == (
        "environment.remove",
        f"environment {managed.environment.public_id}",
        "owner@acme.example",
        SOURCE,
        {
            "project": managed.project.public_id,
            "name": "Production",
            "slug": "production",
            **removed.counts,
            **AGREED,
        },
    )


@pytest.mark.both_databases
async def test_deployments_are_kept_without_their_environment(managed: ManagedProject) -> None:
    await _fill(managed, managed.environment.public_id)
    await _remove(managed)
    async with managed.engines.sessions() as session:
        waited, succeeded = (await session.execute(select(Deployment).order_by(Deployment.id))).scalars()
        lines, _ = await tail_log(session, waited.id)
        stored = (await session.execute(select(AlertEvent).order_by(AlertEvent.id))).scalars()
        events = [(event.kind, event.subject, event.state) for event in stored]
    approval = ("deployment.awaiting_approval", f"approval {waited.id}")
    assert [event for event in events if event[:2] == approval] == [
        (*approval, "firing"),
        (*approval, "resolved"),
        # Emit it again, as for all incidents that a removed environment leaves open: it changes nothing.
        (*approval, "resolved"),
    ]
    assert (waited.status, waited.environment_id, waited.finished_at) == ("canceled", None, NOW)
    assert (succeeded.status, succeeded.environment_id) == ("succeeded", None)
    assert succeeded.approved_variables_id is None
    assert [line.text for line in lines][-1] == "Canceled: the environment was removed."
    with pytest.raises(Conflict, match="was removed"):
        await managed.approve(waited.id)


@pytest.mark.parametrize("status", ACTIVE_STATUSES)
async def test_removal_is_refused_while_a_deployment_is_active(managed: ManagedProject, status: str) -> None:
    await managed.change_environment(deploys_need_approval=True)
    waiting = await managed.queue()
    await managed.change_environment(deploys_need_approval=False)
    number = await managed.queue()
    await managed.change(Deployment, number, status=status)
    before = await managed.read_audit_log()
    with pytest.raises(DeployRunning) as refused:
        await managed.remove_environment()
    assert refused.value.detail == (
        f"Deployment {number} of this environment is {status}: wait until it is finished, or cancel it."
    )
    assert await managed.read_audit_log() == before
    assert (await managed.deployment(waiting)).status == "awaiting_approval"
    assert (await managed.deployment(number)).environment_id == managed.environment.id

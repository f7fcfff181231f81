"""Environments are removed with all that belongs to them, and nothing else, on both databases."""

from collections.abc import Iterable
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor
from control_domain.database.base import Base
from control_domain.deployments.operations import tail_log
from control_domain.deployments.queue_deployment import DeploymentRequest, queue_deployment
from control_domain.monitors.operations import live_monitor_keys
from control_domain.projects.find import DeployTarget
from control_domain.projects.operations import live_ingest_keys
from control_domain.tables.deployments import Deployment, LiveRelease, Release
from control_domain.tables.monitors import (
    Heartbeat,
    HeartbeatRun,
    HeartbeatState,
    MonitorKey,
    Queue,
    QueueState,
    QueueWorker,
)
from control_domain.tables.projects import Environment, EnvironmentLock, IngestKey
from control_domain.tables.recorded_deployments import RecordedDeployment
from control_domain.tables.runtime import EnvironmentLease, Instance
from control_domain.tables.variables import ProtectedVariable, VariableChange, VariableSet
from control_domain.tables.webhooks import ClosingPreview, WaitingPush
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.deploy_states import ACTIVE_STATUSES
from storage_backends.key_directory.redis import open_redis_key_directory
from tests.support.engines import or_skip
from tests.support.managed_project import NOW, REVISION, ManagedProject
from tests.support.redis_server import running_redis

OF_ENVIRONMENTS = {
    ClosingPreview,
    EnvironmentLease,
    EnvironmentLock,
    Heartbeat,
    HeartbeatRun,
    HeartbeatState,
    IngestKey,
    Instance,
    LiveRelease,
    MonitorKey,
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
"""All that refers to an environment, or to what refers to one, and goes with it."""
STAY = {"deployments", "deployment_lines"}

_AGREED = {"by": "deployer@acme.example", "approved_by": "maintainer@acme.example"}


def _referring(to: str) -> set[str]:
    """The tables with a foreign key to this one, and to those in turn."""
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
    """One that comes later has to be removed with it, and to be filled below."""
    assert _referring("environments") == {table.__tablename__ for table in OF_ENVIRONMENTS} | STAY


async def _fill(managed: ManagedProject, called: str) -> list[str]:
    """A row in each of these tables, and a deployment that waits; gives the keys in the clear."""
    act, objects = managed.act, managed.objects
    key = await objects.add_ingest_key(called)
    heartbeat = await objects.add_heartbeat(environment=called)
    queue = await objects.add_queue(environment=called)
    old = await objects.add_ingest_key(called)
    await objects.revoke_ingest_key(old.id)
    await act("variables/set", environment_id=called, text="A=1\n")
    await act("variables/protect", environment_id=called, names=["A"])
    await act("environments/set", id=called, deploy_approval=True, variable_approval=True)
    await act("variables/set", environment_id=called, text="A=2\n", by="owner@acme.example")
    async with managed.engines.sessions() as session, session.begin():
        environment = (
            await session.execute(select(Environment).where(Environment.public_id == called))
        ).scalar_one()
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
        session.add_all(_states(environment.id, release, heartbeat.id, queue.id))
        session.add_all(_of_webhooks(environment.id, managed.repository.id))
    await act("environments/lock", id=called, reason="sale")
    return [key.secret, *heartbeat.secrets, *queue.secrets]


async def _queue(managed: ManagedProject, session: AsyncSession, environment: Environment) -> Deployment:
    actor = Actor("203.0.113.7", managed.people["owner"].id)
    return await queue_deployment(
        session, DeployTarget(environment, managed.project), DeploymentRequest("api"), actor, NOW
    )


def _states(environment: int, release: Release, heartbeat: int, queue: int) -> Iterable[Any]:
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
    yield HeartbeatRun(heartbeat_id=heartbeat, run_id="r1", first_ms=1, started_ms=1)
    yield QueueState(queue_id=queue, snapshot_id="s1", observed_us=1, received_ms=1, pending=1)
    yield QueueWorker(queue_id=queue, worker_id="w1", sequence=1, status="idle", received_ms=1)


def _of_webhooks(environment: int, repository: int) -> Iterable[Any]:
    whose = {"environment_id": environment, "source": "webhook 203.0.113.7", "created_at": NOW}
    yield WaitingPush(**whose, repository_id=repository, branch="main", trigger="push")
    yield ClosingPreview(**whose)


async def _rows(managed: ManagedProject) -> dict[str, int]:
    return {table.__tablename__: await managed.count(table) for table in OF_ENVIRONMENTS}


async def test_an_environment_is_removed_with_all_its_rows(managed: ManagedProject) -> None:
    staging = (await managed.act("environments/create", name="Staging", type="staging"))["id"]
    kept = await _fill(managed, staging)
    before = await _rows(managed)
    assert all(before.values())
    keys = await _fill(managed, managed.environment.public_id)
    assert await _rows(managed) == {table: 2 * count for table, count in before.items()}
    told = await managed.act("environments/remove", id="production", **_AGREED)
    assert told == {
        "id": managed.environment.public_id,
        "slug": "production",
        "removed": {"keys": 5, "heartbeats": 1, "queues": 1, "canceled": 1},
    }
    assert await _rows(managed) == before
    assert [one["id"] for one in await managed.act("environments/list")] == [staging]
    find = managed.engines.directory.find
    assert [await find(digest_credential(key)) for key in keys] == [None] * 4
    assert None not in [await find(digest_credential(key)) for key in kept]
    async with managed.engines.sessions() as session:
        entries = [*await live_ingest_keys(session, NOW), *await live_monitor_keys(session, NOW)]
    assert {entry.environment_id for entry in entries} == {staging}
    action, subject, _, source, details = (await managed.read_audit_log())[0]
    assert (action, source) == ("environment.remove", "operator kim")
    assert subject == f"environment {managed.environment.public_id}"
    assert details == {
        "project": managed.project.public_id,
        "name": "Production",
        "slug": "production",
        **told["removed"],
        "lowered": ["the environment itself"],
        "asked_by": _AGREED["by"],
        "approved_by": _AGREED["approved_by"],
    }


@pytest.mark.both_databases
async def test_deployments_are_kept_without_their_environment(managed: ManagedProject) -> None:
    await _fill(managed, managed.environment.public_id)
    await managed.act("environments/remove", id="production", **_AGREED)
    succeeded, waited = await managed.act("deployments/list")
    assert (waited["status"], waited["environment_id"], waited["environment"]) == ("canceled", None, None)
    assert waited["finished_at"] == "2026-11-18T12:00:00.000Z"
    assert (succeeded["status"], succeeded["environment_id"]) == ("succeeded", None)
    assert (await managed.deployment(succeeded["id"])).approved_variables_id is None
    async with managed.engines.sessions() as session:
        lines, _ = await tail_log(session, waited["id"])
    assert [line.text for line in lines][-1] == "Canceled: the environment was removed."
    line = await managed.expect_refusal("deployments/approve", id=waited["id"], by="maintainer@acme.example")
    assert "is canceled: only one that waits can be approved" in line or "was removed" in line


@pytest.mark.parametrize("status", ACTIVE_STATUSES)
async def test_removal_is_refused_while_a_deployment_is_active(managed: ManagedProject, status: str) -> None:
    waiting = None
    await managed.change_environment(deploys_need_approval=True)
    waiting = await managed.queue()
    await managed.change_environment(deploys_need_approval=False)
    number = await managed.queue()
    await managed.change(Deployment, number, status=status)
    line = await managed.expect_refusal("environments/remove", id="production")
    assert line == (
        f"Deployment {number} of this environment is {status}: wait until it is finished, or cancel it."
    )
    assert (await managed.deployment(waiting)).status == "awaiting_approval"
    assert (await managed.deployment(number)).environment_id == managed.environment.id


async def test_an_unknown_environment_is_refused(managed: ManagedProject) -> None:
    assert "There is no environment nowhere;" in await managed.expect_refusal(
        "environments/remove", id="nowhere"
    )


async def test_an_unreachable_key_directory_is_a_warning(
    managed: ManagedProject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    await managed.objects.add_ingest_key()
    with or_skip(running_redis(tmp_path_factory.mktemp("away"))) as server:
        directory = await open_redis_key_directory(server.url, follow=False)
        server.stop()
        managed.engines = type(managed.engines)(managed.engines.sessions, directory)
        told = await managed.act("environments/remove", id="production")
        await directory.close()
    assert "The edges could not be informed" in told["warning"]
    assert await managed.count(Environment) == 0

"""The topics of an account that change with each kind of row, on both databases. The topics of another account do not
change."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import delete, insert, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import make_operator, record_audit_entry
from control_domain.changes.sweep import changed_topics, read_marks
from control_domain.changes.topics import STORED_TOPICS, TOPICS, Topic
from control_domain.tables.configuration import ConfigurationRun, RunStep
from control_domain.tables.deployments import Deployment
from control_domain.tables.monitors import HeartbeatState, QueueState, QueueWorker
from control_domain.tables.notifications import AlertIncident, Notification
from control_domain.tables.runtime import Instance
from control_domain.tables.webhooks import WebhookDelivery
from pipeline_contracts.times import to_epoch_ms
from tests.support.deploy_platform import Platform, add_deployment, add_monitors
from tests.support.notification_rows import add_incident, add_notifications
from tests.support.prepared_platform import platform, prepared

__all__ = ["platform", "prepared"]

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
_SWEPT = frozenset(TOPICS) - STORED_TOPICS

Change = Callable[[AsyncSession], Awaitable[Any]]


@pytest.fixture
async def monitored(platform: Platform) -> AsyncIterator[Platform]:
    await add_monitors(platform)
    await add_notifications(platform)
    yield platform


def _changes(platform: Platform) -> list[tuple[str, set[Topic], Change]]:
    """Return changes in their order, and the topics of each."""
    acme = platform.acme
    production = acme.environment("shop/production").id
    assert acme.heartbeat is not None and acme.queue is not None and acme.repository is not None
    heartbeat, queue, repository = acme.heartbeat.id, acme.queue.id, acme.repository.id
    waiting: dict[str, int] = {}

    def run(statement: Any) -> Change:
        return lambda session: session.execute(statement)

    async def wait(session: AsyncSession) -> None:
        made = await add_deployment(session, acme, "shop/staging", NOW, status="awaiting_approval")
        waiting["deployment"] = made.id

    def status(status: str, **values: Any) -> Change:
        def change(session: AsyncSession) -> Awaitable[Any]:
            is_it = Deployment.id == waiting["deployment"]
            return session.execute(update(Deployment).where(is_it).values(status=status, **values))

        return change

    def audit(action: str) -> Change:
        async def change(session: AsyncSession) -> None:
            record_audit_entry(session, make_operator("me"), acme.account.id, action, "x 1", NOW)

        return change

    succeeded = acme.deployments["production"].id
    state = update(HeartbeatState).where(HeartbeatState.heartbeat_id == heartbeat)
    delivery = {
        "repository_id": repository, "scope": "1", "delivery": "d1", "is_first": True, "kind": "git", "event": "push",
        "headers": "{}", "body": b"", "http_status": 200, "answer": "queued", "received_at": NOW,
    }  # fmt: skip
    instance = {
        "environment_id": production, "deployment_id": succeeded, "process": "web", "number": 1, "state": "running",
        "restarts": 0,
    }  # fmt: skip
    snapshot = {
        "queue_id": queue, "snapshot_id": "a", "observed_us": 1, "received_ms": 1000, "pending": 4,
    }  # fmt: skip
    worker = {
        "queue_id": queue, "worker_id": "w", "sequence": 1, "status": "idle", "received_ms": 1000,
    }  # fmt: skip
    return [
        ("awaits", {"deployments", "approvals"}, wait),
        ("commit found", {"deployments", "approvals"}, status("awaiting_approval", commit_subject="Fix")),
        ("approved", {"deployments", "approvals"}, status("queued")),
        ("builds", {"deployments"}, status("deploying", step="build")),
        ("ends", {"deployments"}, status("failed")),
        ("starts", {"environments"}, run(insert(Instance).values(instance))),
        ("restarts", {"environments"}, run(update(Instance).values(restarts=1))),
        ("stops", {"environments"}, run(delete(Instance))),
        ("delivered", {"webhooks"}, run(insert(WebhookDelivery).values(delivery))),
        ("signal", {"heartbeats"}, run(state.values(last_signal_ms=5000, version=9))),
        ("late", {"heartbeats"}, run(state.values(since_ms=2_000_000_000_000, version=10))),
        ("snapshot", {"queues"}, run(insert(QueueState).values(snapshot))),
        ("worker", {"queues"}, run(insert(QueueWorker).values(worker))),
        (
            "incident",
            {"incidents"},
            lambda session: add_incident(session, acme, NOW, subject="2", open_key="2"),
        ),
        ("acknowledged", {"incidents"}, run(update(AlertIncident).values(acknowledged_at=NOW))),
        ("resolved", {"incidents"}, run(update(AlertIncident).values(open_key=None))),
        ("sent", {"notifications"}, run(update(Notification).values(status="failed"))),
        ("run begins", {"configuration"}, run(update(ConfigurationRun).values(status="running"))),
        ("step", {"configuration"}, run(update(RunStep).values(attempts=3))),
        ("run ends", {"configuration"}, run(update(ConfigurationRun).values(status="succeeded"))),
        ("locked", {"environments", "previews"}, audit("environment.lock")),
        ("proposed", {"environments", "approvals"}, audit("variables.propose")),
        ("channel", {"notifications"}, audit("notification-channel.create")),
        ("key", {"heartbeats", "queues"}, audit("monitor-key.create")),
        ("resolved group", {"exceptions"}, audit("exception.set")),
        ("site", {"pageviews"}, audit("site.create")),
        ("invited", set(), audit("invitation.create")),
        ("nothing", set(), run(update(Deployment).where(Deployment.id == -1).values(status="failed"))),
    ]


async def test_topics_change_with_their_rows(monitored: Platform) -> None:
    """Statements without a condition on the account change rows of both accounts: for these only `acme` is checked."""
    acme, other = monitored.acme.account.id, monitored.other.account.id
    of_both = {"restarts", "stops", "acknowledged", "resolved", "sent", "step", "run ends", "run begins"}

    async def read(account: int) -> Any:
        async with monitored.sessions() as session:
            return await read_marks(session, account, _SWEPT)

    before, others = await read(acme), await read(other)
    assert before["newest deployments"] and before["newest incidents"]
    for name, expected, change in _changes(monitored):
        async with monitored.sessions() as session, session.begin():
            await change(session)
        after, theirs = await read(acme), await read(other)
        assert changed_topics(before, after) == expected, name
        assert name in of_both or not changed_topics(others, theirs), name
        before, others = after, theirs


async def test_more_entries_than_are_read_change_all_topics(platform: Platform) -> None:
    account = platform.acme.account.id

    async def audit(count: int) -> Any:
        async with platform.sessions() as session, session.begin():
            for _ in range(count):
                record_audit_entry(
                    session, make_operator("me"), account, "queue.set", "q 1", NOW + timedelta(seconds=1)
                )
        async with platform.sessions() as session:
            return await read_marks(session, account, {"previews"})

    first, few, many = await audit(30), await audit(3), await audit(30)
    assert changed_topics(first, few) == {"queues"}
    assert changed_topics(few, many) == frozenset(TOPICS)
    assert changed_topics({}, many) == frozenset()


async def test_a_clock_that_is_ahead_hides_no_changes(monitored: Platform) -> None:
    acme, ahead = monitored.acme, datetime.now(UTC) + timedelta(hours=1)
    assert acme.queue is not None

    async def report(worker: str, at: datetime) -> Any:
        values = {
            "queue_id": acme.queue.id, "worker_id": worker, "sequence": 1, "status": "idle",
            "received_ms": to_epoch_ms(at),
        }  # fmt: skip
        async with monitored.sessions() as session, session.begin():
            await session.execute(insert(QueueWorker).values(values))
        async with monitored.sessions() as session:
            return await read_marks(session, acme.account.id, {"queues"})

    before = await report("a", ahead)
    assert changed_topics(before, await report("b", datetime.now(UTC))) == {"queues"}

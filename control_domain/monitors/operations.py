"""Creates heartbeats, queues and their keys."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.keys import is_live, make_key_entry
from control_domain.monitors.limits import check_number
from control_domain.tables.accounts import Account
from control_domain.tables.monitors import (
    Heartbeat,
    HeartbeatState,
    MonitorKey,
    MonitorProgress,
    Queue,
)
from control_domain.tables.projects import Environment, Project
from pipeline_contracts.credentials import CredentialKind, digest_credential, make_credential
from pipeline_contracts.schedules import Schedule
from pipeline_contracts.times import to_epoch_ms
from storage_backends.key_directory.interface import KeyEntry


@dataclass(frozen=True, slots=True)
class HeartbeatSettings:
    """The settings of a heartbeat, with a checked schedule."""

    name: str
    schedule: Schedule
    grace_seconds: int = 300
    max_runtime_seconds: int = 3600
    failures_before_down: int = 1

    def columns(self) -> dict[str, Any]:
        """Return the columns for these settings, without the name."""
        return {
            "period_seconds": self.schedule.period_seconds,
            "cron": self.schedule.cron,
            "timezone": self.schedule.timezone,
            "grace_seconds": self.grace_seconds,
            "max_runtime_seconds": self.max_runtime_seconds,
            "failures_before_down": self.failures_before_down,
        }


def get_settings(heartbeat: Heartbeat) -> HeartbeatSettings:
    """Return the settings of the heartbeat."""
    return HeartbeatSettings(
        heartbeat.name,
        Schedule(heartbeat.period_seconds, heartbeat.cron, heartbeat.timezone),
        heartbeat.grace_seconds,
        heartbeat.max_runtime_seconds,
        heartbeat.failures_before_down,
    )


async def create_heartbeat(
    session: AsyncSession, environment: Environment, settings: HeartbeatSettings, now: datetime
) -> Heartbeat:
    """Create a heartbeat that waits for its first signal. Raises `Conflict` if the account has too many."""
    await check_number(session, Heartbeat, environment)
    heartbeat = Heartbeat(
        environment_id=environment.id,
        name=settings.name,
        **settings.columns(),
        paused=False,
        created_at=now,
    )
    session.add(heartbeat)
    await session.flush()
    session.add(
        HeartbeatState(
            heartbeat_id=heartbeat.id,
            state="new",
            since_ms=to_epoch_ms(now),
            failures_in_row=0,
            open_runs=0,
            version=0,
        )
    )
    await session.flush()
    return heartbeat


async def create_queue(session: AsyncSession, environment: Environment, name: str, now: datetime) -> Queue:
    """Create a queue without a snapshot. Raises `Conflict` if the account has too many."""
    await check_number(session, Queue, environment)
    queue = Queue(environment_id=environment.id, name=name, created_at=now)
    session.add(queue)
    await session.flush()
    return queue


async def create_monitor_key(
    session: AsyncSession, now: datetime, *, heartbeat_id: int | None = None, queue_id: int | None = None
) -> tuple[int, str]:
    """Create a key of one monitor. Return its ID, and its secret, which is not stored."""
    secret = make_credential(CredentialKind.MONITOR_KEY)
    key = MonitorKey(
        heartbeat_id=heartbeat_id, queue_id=queue_id, digest=digest_credential(secret), created_at=now
    )
    session.add(key)
    await session.flush()
    return key.id, secret


async def live_monitor_keys(
    session: AsyncSession,
    now: datetime,
    digests: Collection[bytes] | None = None,
    *,
    account_id: int | None = None,
) -> Sequence[KeyEntry]:
    """Return the valid monitor keys as entries for the edges: all of them, or those of these digests or of an
    account."""
    # Account scope: the edges need the keys of every account.
    environment_id = func.coalesce(Heartbeat.environment_id, Queue.environment_id)
    query = (
        select(MonitorKey, Environment.public_id, Project.public_id, Account)
        .outerjoin(Heartbeat, Heartbeat.id == MonitorKey.heartbeat_id)
        .outerjoin(Queue, Queue.id == MonitorKey.queue_id)
        .join(Environment, Environment.id == environment_id)
        .join(Project, Project.id == Environment.project_id)
        .join(Account, Account.id == Project.account_id)
        .where(MonitorKey.revoked_at.is_(None))
    )
    if digests is not None:
        query = query.where(MonitorKey.digest.in_(digests))
    if account_id is not None:
        query = query.where(Account.id == account_id)
    return [
        make_key_entry(
            key,
            CredentialKind.MONITOR_KEY if key.sealed is None else CredentialKind.PING_KEY,
            account,
            project,
            environment,
            f"heartbeat/{key.heartbeat_id}" if key.queue_id is None else f"queue/{key.queue_id}",
        )
        for key, environment, project, account in await session.execute(query)
        if is_live(key, now)
    ]


async def applied_through_ms(session: AsyncSession, topic: str) -> int | None:
    """Return the receipt time up to which all reports of a topic are applied; None if none ever was."""
    query = select(func.min(MonitorProgress.applied_through_ms)).where(MonitorProgress.topic == topic)
    return (await session.execute(query)).scalar_one()


def ping_key_owner(heartbeat_id: int | None) -> str:
    """Return the owner that a heartbeat's ping keys are sealed for: they cannot be opened for another heartbeat."""
    return f"heartbeat {heartbeat_id}"

"""Audit entries about heartbeats, queues and their keys."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.monitors.find import FoundMonitor
from control_domain.tables.monitors import Heartbeat


def get_kind(found: FoundMonitor) -> Literal["heartbeat", "queue"]:
    return "heartbeat" if isinstance(found.monitor, Heartbeat) else "queue"


def record_monitor_entry(
    session: AsyncSession,
    found: FoundMonitor,
    verb: str,
    details: Mapping[str, Any],
    actor: Actor,
    now: datetime,
) -> None:
    """Record that a monitor was changed; `verb` is the second part of the action, such as `create`."""
    kind = get_kind(found)
    where = {"environment": found.environment.public_id}
    subject = f"{kind} {found.monitor.id}"
    record_audit_entry(
        session, actor, found.project.account_id, f"{kind}.{verb}", subject, now, {**where, **details}
    )


def record_key_entry(
    session: AsyncSession, found: FoundMonitor, action: str, key_id: int, actor: Actor, now: datetime
) -> None:
    """Record that a key of a monitor was created or revoked; `action` is a name such as `monitor-key.create`."""
    details = {"environment": found.environment.public_id, get_kind(found): found.monitor.id}
    subject = f"{action.partition('.')[0]} {key_id}"
    record_audit_entry(session, actor, found.project.account_id, action, subject, now, details)

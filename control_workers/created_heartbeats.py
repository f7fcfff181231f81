"""Publishes the heartbeats that pings have created, and adds them to the audit log.

Consumers create these heartbeats, and add a row to the table `created_heartbeats`. Only the control plane writes to
the key directory and to the audit log.
"""

import asyncio
import logging
from datetime import UTC, datetime

from sqlalchemy import delete, select
from sqlalchemy.exc import SQLAlchemyError

from control_domain.audit import PING, record_audit_entry
from control_domain.database.changes import Changes
from control_domain.database.engine import Sessions
from control_domain.database.run_periodically import run_periodically
from control_domain.published_keys import ChangedKeys, publish_changes
from control_domain.tables.monitors import CreatedHeartbeat, Heartbeat
from control_domain.tables.projects import Environment, Project
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.key_directory.interface import KeyDirectory

logger = logging.getLogger(__name__)

_POLL_SECONDS = 1.0
_AT_ONCE = 500


async def publish_created_heartbeats(sessions: Sessions, directory: KeyDirectory, now: datetime) -> int:
    """Publish the names of up to 500 created heartbeats, and return their number.

    Several control planes may call this at the same time: each heartbeat gets only one audit entry. Raises
    `StorageUnavailable` and database errors. The next call then publishes the heartbeats.
    """
    query = (
        select(Heartbeat.id, Heartbeat.name, Environment.public_id, Project.account_id)
        .join(CreatedHeartbeat, CreatedHeartbeat.heartbeat_id == Heartbeat.id)
        .join(Environment, Environment.id == Heartbeat.environment_id)
        .join(Project, Project.id == Environment.project_id)
        .order_by(Heartbeat.id)
        .limit(_AT_ONCE)
    )
    async with sessions() as session:
        created = (await session.execute(query)).all()
    if not created:
        return 0
    changed = ChangedKeys(names=[(environment, name) for _, name, environment, _ in created])
    await publish_changes(sessions, directory, changed, now)
    is_published = CreatedHeartbeat.heartbeat_id.in_([number for number, *_ in created])
    async with sessions() as session, session.begin():
        removed = await session.execute(
            delete(CreatedHeartbeat)
            .where(is_published)
            .returning(CreatedHeartbeat.heartbeat_id)
            .execution_options(synchronize_session=False)
        )
        mine = set(removed.scalars())
        for number, name, environment, account_id in created:
            if number in mine:
                details = {"environment": environment, "name": name}
                record_audit_entry(
                    session, PING, account_id, "heartbeat.create", f"heartbeat {number}", now, details
                )
    return len(created)


async def publish_created_heartbeats_periodically(
    sessions: Sessions, directory: KeyDirectory, stop: asyncio.Event, *, every: float = _POLL_SECONDS
) -> None:
    """Publish created heartbeats every second, until `stop` is set."""

    async def publish() -> None:
        while await publish_created_heartbeats(sessions, directory, datetime.now(UTC)) == _AT_ONCE:
            pass

    await run_periodically(
        publish,
        stop,
        every=every,
        logger=logger,
        outage="heartbeats that pings created cannot be published now",
        fault="heartbeats that pings created could not be published",
        transient=(StorageUnavailable, SQLAlchemyError),
        changes=Changes(sessions),
    )

"""Ends incidents that nobody can end any more.

Only a person can end the incident of a new or regressed group of exceptions, and only while exceptions of the group are
stored. If the incident stayed open, it would hide a later return of the group.
"""

import asyncio
import logging
from datetime import UTC, datetime, timedelta

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.alert_events import record_alert_event
from control_domain.database.engine import Sessions
from control_domain.database.old_rows import is_older
from control_domain.database.run_periodically import run_periodically
from control_domain.tables.notifications import AlertIncident

logger = logging.getLogger(__name__)

FORGOTTEN_AFTER = timedelta(days=30)
"""How long such an incident stays open after its last change."""
KINDS = ("exception.new", "exception.regressed")
_EVERY_SECONDS = 3600.0
# Number of events that one transaction writes. On SQLite, a transaction blocks all other writers.
_BATCH = 500
_MAX_BATCHES = 100


async def end_forgotten(sessions: Sessions, now: datetime) -> int:
    """Write resolutions for forgotten incidents, at most 50,000. Return their number."""
    ended, after = 0, 0
    for _ in range(_MAX_BATCHES):
        async with sessions() as session, session.begin():
            incidents = await _find_forgotten(session, now - FORGOTTEN_AFTER, after)
            for incident in incidents:
                record_alert_event(
                    session,
                    incident.kind,
                    incident.subject,
                    "resolved",
                    now,
                    account_id=incident.account_id,
                    project_id=incident.project_id,
                    environment_id=incident.environment_id,
                    facts={"reason": "forgotten"},
                )
        ended += len(incidents)
        if len(incidents) < _BATCH:
            break
        after = incidents[-1].id
        # Pause, so that others can write.
        await asyncio.sleep(0.05)
    return ended


async def _find_forgotten(session: AsyncSession, before: datetime, after: int) -> list[AlertIncident]:
    found = await session.scalars(
        select(AlertIncident)
        .where(
            AlertIncident.id > after,
            await is_older(session, AlertIncident.id, AlertIncident.started_at, before),
            AlertIncident.open_key.is_not(None),
            AlertIncident.kind.in_(KINDS),
            AlertIncident.changed_at < before,
        )
        .order_by(AlertIncident.id)
        .limit(_BATCH)
    )
    return list(found)


async def end_forgotten_periodically(
    sessions: Sessions, stop: asyncio.Event, *, every: float = _EVERY_SECONDS
) -> None:
    """End forgotten incidents every hour, until `stop` is set."""
    await run_periodically(
        lambda: end_forgotten(sessions, datetime.now(UTC)),
        stop,
        every=every,
        logger=logger,
        outage="forgotten incidents cannot be ended: the database is unreachable",
        fault="forgotten incidents could not be ended",
    )

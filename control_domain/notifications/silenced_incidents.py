"""Finds when the silences of incidents end."""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.notifications.kinds import read_kinds
from control_domain.tables.notifications import AlertIncident, NotificationSilence


async def find_silenced(
    session: AsyncSession, account_id: int, incidents: Collection[AlertIncident], now: datetime
) -> dict[int, datetime]:
    """Return the end of the last active silence of each silenced open incident of the account, by the incident's
    number."""
    firing = [incident for incident in incidents if incident.open_key is not None]
    if not firing:
        return {}
    table = NotificationSilence
    present = await session.scalars(
        select(table).where(table.account_id == account_id, table.starts_at <= now, table.ends_at > now)
    )
    found: dict[int, datetime] = {}
    for silence in present:
        for incident in firing:
            if _holds(silence, incident):
                found[incident.id] = max(found.get(incident.id, silence.ends_at), silence.ends_at)
    return found


def _holds(silence: NotificationSilence, incident: AlertIncident) -> bool:
    scope = (
        (silence.project_id, incident.project_id),
        (silence.environment_id, incident.environment_id),
        (silence.incident_id, incident.id),
    )
    if any(only is not None and only != value for only, value in scope):
        return False
    kinds = read_kinds(silence.kinds)
    return kinds is None or incident.kind in kinds or incident.kind.partition(".")[0] in kinds

"""What holds a group's changes back: silences of the account, and quiet hours of the recipient."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, and_, false, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.notifications.quiet_hours import read_quiet_hours
from control_domain.tables.notifications import (
    AlertIncident,
    NotificationChannel,
    NotificationGroup,
    NotificationPreference,
    NotificationSilence,
)

_decode_names = msgspec.json.Decoder(list[str]).decode


@dataclass(frozen=True, slots=True)
class Holds:
    """Conditions on incidents of one group, at one time."""

    silenced: ColumnElement[bool]
    quiet: ColumnElement[bool]
    until: datetime | None
    """The first end of a silence or of quiet hours; None: nothing is held."""

    @property
    def any(self) -> ColumnElement[bool]:
        """The condition that an incident may not be sent now."""
        return or_(self.silenced, self.quiet)


async def read_holds(session: AsyncSession, group: NotificationGroup, now: datetime) -> Holds:
    """Return what holds the group's incidents at this time."""
    silences = await _read_silences(session, group, now)
    quiet_until = await _read_quiet_until(session, group, now)
    ends = [silence.ends_at for silence in silences]
    if quiet_until is not None:
        ends.append(quiet_until)
    return Holds(
        or_(false(), *(_silences(silence) for silence in silences)),
        AlertIncident.severity != "critical" if quiet_until is not None else false(),
        min(ends, default=None),
    )


async def _read_silences(
    session: AsyncSession, group: NotificationGroup, now: datetime
) -> Sequence[NotificationSilence]:
    table = NotificationSilence
    return (
        await session.scalars(
            select(table).where(
                table.account_id == group.account_id,
                table.ends_at > now,
                table.starts_at <= now,
                or_(table.project_id.is_(None), table.project_id == group.project_id),
                or_(table.environment_id.is_(None), table.environment_id == group.environment_id),
            )
        )
    ).all()


def _silences(silence: NotificationSilence) -> ColumnElement[bool]:
    """Return the condition that an incident of a project and environment of the silence is silenced."""
    conditions: list[Any] = []
    if silence.incident_id is not None:
        conditions.append(AlertIncident.id == silence.incident_id)
    if silence.kinds is not None:
        names = _decode_names(silence.kinds)
        kinds = [AlertIncident.kind == name for name in names if "." in name]
        families = [
            AlertIncident.kind.startswith(f"{name}.", autoescape=True) for name in names if "." not in name
        ]
        conditions.append(or_(false(), *kinds, *families))
    return and_(AlertIncident.account_id == silence.account_id, *conditions)


async def _read_quiet_until(
    session: AsyncSession, group: NotificationGroup, now: datetime
) -> datetime | None:
    if group.family == "test":
        return None
    if group.channel_id is not None:
        query = select(NotificationChannel.quiet_hours).where(NotificationChannel.id == group.channel_id)
    else:
        query = select(NotificationPreference.quiet_hours).where(
            NotificationPreference.person_id == group.person_id
        )
    text = await session.scalar(query)
    return None if text is None else read_quiet_hours(text).ends_at(now)

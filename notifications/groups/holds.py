"""Decides which changes of a group must wait, because of silences of the account or quiet hours of the
recipient."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec
from sqlalchemy import ColumnElement, false, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.notifications.quiet_hours import read_quiet_hours
from control_domain.tables.notifications import (
    AlertIncident,
    NotificationChannel,
    NotificationGroup,
    NotificationPreference,
    NotificationSilence,
)
from pipeline_contracts.alert_kinds import ALERT_KINDS

_decode_names = msgspec.json.Decoder(list[str]).decode


@dataclass(frozen=True, slots=True)
class Holds:
    """SQL conditions that say which incidents of one group must wait at one time."""

    silenced: ColumnElement[bool]
    quiet: ColumnElement[bool]
    until: datetime | None
    """When the first silence or quiet hours end that hold something back. None if nothing waits."""

    @property
    def any(self) -> ColumnElement[bool]:
        """Return an SQL condition: the incident must not be sent now."""
        return or_(self.silenced, self.quiet)


async def read_holds(session: AsyncSession, group: NotificationGroup, now: datetime) -> Holds:
    """Return the conditions for the group's incidents at this time. The test of a channel never waits."""
    if group.family == "test":
        return Holds(false(), false(), None)
    silences = [each for each in await _read_silences(session, group, now) if _list_kinds(each, group.family)]
    quiet_until = await _read_quiet_until(session, group, now)
    ends = [silence.ends_at for silence in silences]
    if quiet_until is not None:
        ends.append(quiet_until)
    return Holds(
        _merge(silences, group.family),
        AlertIncident.severity != "critical" if quiet_until is not None else false(),
        min(ends, default=None),
    )


def _list_kinds(silence: NotificationSilence, family: str) -> frozenset[str]:
    """Return those kinds of the family to which the silence applies."""
    of_family = frozenset(kind.name for kind in ALERT_KINDS.values() if kind.family == family)
    if silence.kinds is None:
        return of_family
    names = _decode_names(silence.kinds)
    return of_family if family in names else of_family & frozenset(names)


def _merge(silences: Sequence[NotificationSilence], family: str) -> ColumnElement[bool]:
    """Return an SQL condition: a silence holds the incident back. It has two lists, however many silences there
    are."""
    kinds: set[str] = set()
    incidents: set[int] = set()
    for silence in silences:
        if silence.incident_id is None:
            kinds |= _list_kinds(silence, family)
        else:
            incidents.add(silence.incident_id)
    return or_(AlertIncident.kind.in_(sorted(kinds)), AlertIncident.id.in_(sorted(incidents)))


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


async def _read_quiet_until(
    session: AsyncSession, group: NotificationGroup, now: datetime
) -> datetime | None:
    if group.channel_id is not None:
        query = select(NotificationChannel.quiet_hours).where(NotificationChannel.id == group.channel_id)
    else:
        query = select(NotificationPreference.quiet_hours).where(
            NotificationPreference.person_id == group.person_id
        )
    text = await session.scalar(query)
    return None if text is None else read_quiet_hours(text).ends_at(now)

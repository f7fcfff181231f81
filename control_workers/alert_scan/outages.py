"""Finds times in which the alert scan could not evaluate anything (outages). One message reports each outage.

The message is written some time after the end of the outage. If the heartbeat scan reports the same outage, it has
done so by then, and no second message is written. If another outage begins before the message is written, both
count as one.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.tables.notifications import AlertEvent, AlertIncident
from control_workers.alert_scan.conditions import Event, Scope
from pipeline_contracts.times import from_epoch_ms, to_epoch_ms

NOTE = "platform outage"
"""The key under which an outage is stored until its message is written."""
MAX_PAUSE = timedelta(minutes=3)
"""If no scan ran for longer than this, Pharos was down."""
MAX_UNREADABLE = timedelta(minutes=2)
_SETTLED = timedelta(seconds=60)
_TOLERANCE_MS = 180_000
_KIND = "platform.blind"
_SUBJECT = "blind"
_MAX_EARLIER = 20


@dataclass(frozen=True, slots=True)
class Outage:
    """A time in which no condition was evaluated."""

    begin: datetime
    end: datetime
    what: str
    """The cause: `alert scan` if no control plane scanned, `column store` if it could not be read."""

    def merge(self, earlier: "Outage | None") -> "Outage":
        """Return one outage that includes both this outage and an earlier one that has just ended."""
        return self if earlier is None else replace(self, begin=min(self.begin, earlier.begin))

    def is_covered(self, from_ms: int, to_ms: int) -> bool:
        """Return True if the outage that was reported for these times is this outage."""
        return (
            from_ms <= to_epoch_ms(self.begin) + _TOLERANCE_MS
            and to_ms >= to_epoch_ms(self.end) - _TOLERANCE_MS
        )

    def is_settled(self, now: datetime) -> bool:
        """Return True once the message about the outage can be written."""
        return now - self.end >= _SETTLED

    def to_note(self) -> Mapping[str, int | str]:
        """Return the outage in the form in which it is stored as JSON."""
        return {"from_ms": to_epoch_ms(self.begin), "to_ms": to_epoch_ms(self.end), "what": self.what}

    def to_event(self, operator: Scope, now: datetime) -> Event:
        """Return the event that reports the outage."""
        return Event(operator, _KIND, _SUBJECT, "info", self.to_note(), now)


def read_outage(note: Mapping[str, int | str]) -> Outage | None:
    """Return the outage that was stored. None if there is none."""
    if not note:
        return None
    begin, end = from_epoch_ms(int(note["from_ms"])), from_epoch_ms(int(note["to_ms"]))
    return Outage(begin, end, str(note["what"]))


def find_outage(
    through: datetime | None, blind_since: datetime | None, now: datetime, *, is_readable: bool
) -> tuple[Outage | None, datetime | None]:
    """Return two values: the outage that has just ended (or None), and since when the column store cannot be read
    (or None).

    `through`: when the last scan was complete; None for the first scan.
    """
    if through is None:
        return None, None if is_readable else now
    was_down = now - through > MAX_PAUSE
    if not is_readable:
        # If no scan ran immediately before, that pause belongs to the outage too.
        return None, blind_since or (through if was_down else now)
    begin = blind_since or through
    if was_down:
        return Outage(begin, now, "alert scan"), None
    if blind_since is not None and now - blind_since > MAX_UNREADABLE:
        return Outage(begin, now, "column store"), None
    return None, None


async def is_reported(session: AsyncSession, operator: Scope, outage: Outage) -> bool:
    """Return True if an event or an incident has already reported this outage."""
    events = select(AlertEvent.facts).where(
        AlertEvent.kind == _KIND, AlertEvent.account_id == operator.account_id
    )
    incidents = select(AlertIncident.facts).where(
        AlertIncident.kind == _KIND,
        AlertIncident.account_id == operator.account_id,
        AlertIncident.started_at >= outage.begin,
    )
    newest = (
        events.order_by(AlertEvent.id.desc()).limit(_MAX_EARLIER),
        incidents.order_by(AlertIncident.id.desc()).limit(_MAX_EARLIER),
    )
    for query in newest:
        for text in await session.scalars(query):
            facts = json.loads(text)
            if outage.is_covered(int(facts.get("from_ms", 0)), int(facts.get("to_ms", 0))):
                return True
    return False

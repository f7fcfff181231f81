"""The group worker's step: turn due groups into notifications.

Each group has its own transaction, which locks the group. So the incidents of the group change either before or after
the message, and no other worker writes the same message.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from sqlalchemy import ColumnElement, and_, case, delete, func, or_, select, update
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.engine import Sessions
from control_domain.database.errors import DatabaseUnavailable
from control_domain.notifications.signed_links import LinkRecipient
from control_domain.tables.notifications import (
    AlertIncident,
    Notification,
    NotificationGroup,
    NotificationMember,
)
from notifications.groups.compose import Composition, Recipients, compose_message
from notifications.groups.holds import Holds, read_holds
from notifications.groups.plan import Group, Timings, next_reminder, plan_group
from notifications.message import MAX_LISTED, encode_message
from pipeline_contracts.alert_kinds import ALERT_KINDS
from pipeline_contracts.identifiers import make_identifier
from pipeline_contracts.times import to_epoch_ms

logger = logging.getLogger(__name__)

_GROUPS = 100
_PAUSE_AFTER_FAULT = timedelta(minutes=5)
_MAX_TITLE = 300
# Two control planes' clocks may differ by this much.
_CLOCKS_DIFFER = timedelta(minutes=1)
_LONG_AGO = timedelta(days=1)
_LONG_PAST = datetime.min.replace(tzinfo=UTC)
_NO_WAIT = Timings(timedelta(0), timedelta(0))

Link = Callable[[str, LinkRecipient, datetime], str | None]
"""Returns the URL of a signed page about the incident with this public ID, for one recipient. None if the installation
has no public URL."""

_OF_GROUP = AlertIncident.id == NotificationMember.incident_id
_SEVERITY = case({"critical": 2, "warning": 1}, value=AlertIncident.severity, else_=0)
_REMINDS = AlertIncident.kind.in_([kind.name for kind in ALERT_KINDS.values() if kind.reminds])


@dataclass(slots=True)
class GroupWriter:
    """Writes the notifications of groups that are due."""

    sessions: Sessions
    link: Link
    timings: Timings = Timings()
    _next_due_at: datetime | None = field(init=False, default=_LONG_PAST)

    def is_due(self, now: datetime) -> bool:
        """Return True if a group has become due since the last `write_due`. Groups whose incidents have changed since
        then do not count."""
        return self._next_due_at is not None and self._next_due_at <= now

    async def write_due(self, now: datetime) -> int:
        """Write the notifications that are due. Return their number. Raises database errors."""
        written = 0
        self._next_due_at = now
        while True:
            async with self.sessions() as session:
                found = await session.execute(
                    select(NotificationGroup.id, NotificationGroup.due_at)
                    .where(NotificationGroup.due_at.is_not(None))
                    .order_by(NotificationGroup.due_at)
                    .limit(_GROUPS)
                )
                times = {number: due_at for number, due_at in found if due_at is not None}
            due = [number for number, due_at in times.items() if due_at <= now]
            # A group that has sent a message is due again, so that the time of its next check is computed.
            for number in due:
                written += await self._try_to_look_at(number, now)
            if not due:
                self._next_due_at = min(times.values(), default=None)
                return written

    async def _try_to_look_at(self, number: int, now: datetime) -> bool:
        """Call `_look_at`. If the message of a group cannot be composed, postpone the group, so that it does not hold
        up the others."""
        try:
            return await self._look_at(number, now)
        except (DatabaseUnavailable, PoolTimeout):
            raise
        except Exception:
            logger.exception("the message of notification group %d could not be written", number)
        async with self.sessions() as session, session.begin():
            await session.execute(
                update(NotificationGroup)
                .where(NotificationGroup.id == number)
                .values(due_at=now + _PAUSE_AFTER_FAULT)
            )
        return False

    async def _look_at(self, number: int, now: datetime) -> bool:
        """If a message of the group is due, write it. Store when the group is due next."""
        async with self.sessions() as session, session.begin():
            # Begin with a write, which locks the group (on SQLite, the whole database).
            group = await session.scalar(
                update(NotificationGroup)
                .where(NotificationGroup.id == number, NotificationGroup.due_at <= now)
                .values(due_at=None)
                .returning(NotificationGroup)
            )
            if group is None:
                return False
            return await _GroupStep(session, group, now, self).run()


class _GroupStep:
    """Handles one locked group in its transaction."""

    def __init__(
        self, session: AsyncSession, group: NotificationGroup, now: datetime, writer: GroupWriter
    ) -> None:
        self._session = session
        self._group = group
        self._now = now
        self._writer = writer
        self._members = NotificationMember.group_id == group.id

    async def run(self) -> bool:
        recipients = Recipients(self._session, self._group)
        if not await recipients.is_available():
            # While a channel is turned off, it gets no new incidents. Later it gets the resolutions of incidents that
            # were sent to it.
            await self._session.execute(
                delete(NotificationMember)
                .where(self._members, NotificationMember.sent.is_(None))
                .execution_options(synchronize_session=False)
            )
            return False
        holds = await read_holds(self._session, self._group, self._now)
        await self._forget_silenced_events(holds)
        timings = _NO_WAIT if self._group.family == "test" else self._writer.timings
        plan = plan_group(await self._read(holds), self._now, timings)
        if plan.send is None:
            await self._update_group(due_at=plan.due_at)
            return False
        composition = await self._take(plan.send, holds)
        message = compose_message(
            composition, await recipients.read_place(), self._group, self._now, self._writer.link
        )
        self._session.add(
            Notification(
                public_id=message.id,
                account_id=self._group.account_id,
                project_id=self._group.project_id,
                environment_id=self._group.environment_id,
                group_id=self._group.id,
                channel_id=self._group.channel_id,
                person_id=self._group.person_id,
                recipient=await recipients.read_name(),
                created_at=self._now,
                content=encode_message(message).decode(),
                title=message.title[:_MAX_TITLE],
                status="pending",
                next_attempt_at=self._now,
            )
        )
        return True

    async def _read(self, holds: Holds) -> Group:
        held = _is_held(holds)
        pending = NotificationMember.pending.is_not(None)
        reminded = self._is_reminded()
        row = (
            await self._session.execute(
                select(
                    func.min(case((and_(pending, ~held), NotificationMember.pending_since))),
                    func.count(case((and_(pending, held), 1))),
                    func.count(case((and_(NotificationMember.pending == "firing", ~held), 1))),
                    func.count(case((NotificationMember.sent == "firing", 1))),
                    func.count(case((and_(reminded, ~holds.any), 1))),
                    func.count(case((and_(reminded, holds.any), 1))),
                )
                .join(AlertIncident, _OF_GROUP)
                .where(self._members)
            )
        ).one()
        pending_since, held_count, opening, open_count, remindable, held_reminders = row
        return Group(
            sent_at=self._not_ahead(self._group.sent_at),
            pending_since=self._not_ahead(pending_since),
            begins=opening > 0 and open_count == 0,
            held_until=holds.until if held_count else None,
            remind_at=self._group.remind_at,
            can_remind=remindable > 0,
            remind_held_until=holds.until if held_reminders else None,
        )

    def _not_ahead(self, at: datetime | None) -> datetime | None:
        """Return the time. If it is in the future, a clock that was ahead wrote it: return a time long ago, because
        messages must not wait."""
        is_ahead = at is not None and at > self._now + _CLOCKS_DIFFER
        return self._now - _LONG_AGO if is_ahead else at

    def _is_reminded(self) -> ColumnElement[bool]:
        """Return an SQL condition: the incident is open, was sent, and has reminders until somebody acknowledges it."""
        return and_(
            NotificationMember.sent == "firing",
            or_(NotificationMember.pending.is_(None), NotificationMember.pending != "resolved"),
            NotificationMember.reminders.is_(True),
            AlertIncident.acknowledged_at.is_(None),
            AlertIncident.open_key.is_not(None),
            _REMINDS,
        )

    async def _forget_silenced_events(self, holds: Holds) -> None:
        """Delete events that were silenced and have no end: after the silence, nobody needs them."""
        silenced = (
            select(NotificationMember.incident_id)
            .join(AlertIncident, _OF_GROUP)
            .where(self._members, NotificationMember.pending == "info", holds.silenced)
        )
        await self._session.execute(
            delete(NotificationMember)
            .where(self._members, NotificationMember.incident_id.in_(silenced))
            .execution_options(synchronize_session=False)
        )

    async def _take(self, send: Literal["change", "reminder"], holds: Holds) -> Composition:
        """Read the incidents of the message. Store that it was sent, and when the group is due next."""
        chosen = (
            and_(self._is_reminded(), ~holds.any)
            if send == "reminder"
            else and_(NotificationMember.pending.is_not(None), ~_is_held(holds))
        )
        told_before = await self._count(NotificationMember.sent == "firing")
        listed = (
            await self._session.execute(
                select(AlertIncident, NotificationMember.pending)
                .join(NotificationMember, _OF_GROUP)
                .where(self._members, chosen)
                .order_by(
                    (NotificationMember.pending == "resolved").is_(True), _SEVERITY.desc(), AlertIncident.id
                )
                .limit(MAX_LISTED)
            )
        ).all()
        rows = await self._session.execute(
            select(NotificationMember.pending, func.count())
            .join(AlertIncident, _OF_GROUP)
            .where(self._members, chosen)
            .group_by(NotificationMember.pending)
        )
        counts = {row[0]: row[1] for row in rows}
        opens = send == "change" and counts.get("firing", 0) > 0
        if send == "change":
            await self._note_sent(chosen)
        if opens and told_before == 0:
            # The group begins again and gets a new ID, because receivers open and close their alerts by this ID.
            self._group.public_id = make_identifier("grp", to_epoch_ms(self._now))
        firing = await self._count(NotificationMember.sent == "firing")
        remind_at = next_reminder(
            self._group.remind_at,
            self._now,
            sent=send,
            opens=opens,
            is_open=await self._count(self._is_reminded()) > 0,
        )
        await self._update_group(
            # The group is due again at once: the next check computes its due time from changes and reminders that are
            # held back.
            due_at=self._now,
            sent_at=self._now,
            remind_at=remind_at,
            public_id=self._group.public_id,
        )
        return Composition(
            reason="reminder" if send == "reminder" else "first" if told_before == 0 else "change",
            listed=[(incident, pending or "firing") for incident, pending in listed],
            total=sum(counts.values()),
            firing=firing,
            resolved=counts.get("resolved", 0),
        )

    async def _note_sent(self, chosen: ColumnElement[bool]) -> None:
        """Store that the waiting changes of the chosen members were sent. Members that have ended leave the group."""
        numbers = (
            select(NotificationMember.incident_id).join(AlertIncident, _OF_GROUP).where(self._members, chosen)
        )
        of_chosen = and_(self._members, NotificationMember.incident_id.in_(numbers))
        await self._session.execute(
            delete(NotificationMember)
            .where(of_chosen, NotificationMember.pending.in_(["resolved", "info"]))
            .execution_options(synchronize_session=False)
        )
        await self._session.execute(
            update(NotificationMember)
            .where(of_chosen)
            .values(sent="firing", pending=None, pending_since=None)
            .execution_options(synchronize_session=False)
        )

    async def _count(self, condition: ColumnElement[bool]) -> int:
        query = select(func.count()).select_from(NotificationMember).join(AlertIncident, _OF_GROUP)
        return (await self._session.scalar(query.where(self._members, condition))) or 0

    async def _update_group(self, **values: Any) -> None:
        await self._session.execute(
            update(NotificationGroup).where(NotificationGroup.id == self._group.id).values(**values)
        )


def _is_held(holds: Holds) -> ColumnElement[bool]:
    """Return an SQL condition: the waiting change may not be sent now. A silence does not hold back the resolution of
    an incident that was sent, because its receiver must be able to close the incident."""
    return or_(and_(holds.silenced, NotificationMember.pending != "resolved"), holds.quiet)

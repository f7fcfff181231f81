"""An account whose alert events become notifications, with the clock of the test."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, func, select, update

from control_domain.alert_events import record_alert_event
from control_domain.database.engine import Sessions
from control_domain.notifications.signed_links import LinkRecipient
from control_domain.notifications.wake_groups import look_at_groups
from control_domain.tables.notifications import (
    AlertEvent,
    AlertIncident,
    Notification,
    NotificationChannel,
    NotificationGroup,
    NotificationMember,
    NotificationRule,
    NotificationSilence,
)
from notifications.groups.plan import Timings
from notifications.groups.write_due import GroupWriter
from notifications.incidents.process_events import IncidentWorker
from notifications.message import Message, decode_message
from pipeline_contracts.alert_kinds import EventState
from tests.support.accounts import Acme, make_acme


def no_link(_incident: str, _recipient: LinkRecipient, _now: datetime) -> str | None:
    """Return no link, as without a public URL."""
    return None


@dataclass(slots=True)
class Notified:
    """Writes events, and runs the incident and the group worker exactly when something is due."""

    sessions: Sessions
    acme: Acme
    now: datetime
    has_email: bool = False
    writer: GroupWriter = field(init=False)

    def __post_init__(self) -> None:
        self.writer = GroupWriter(self.sessions, no_link)

    def make_worker(self) -> IncidentWorker:
        """Return an incident worker."""
        return IncidentWorker(self.sessions, has_email=self.has_email, wait=Timings().first)

    async def add_channel(self, name: str, quiet_hours: dict[str, Any] | None = None) -> int:
        """Add a webhook channel; return its number."""
        async with self.sessions() as session, session.begin():
            channel = NotificationChannel(
                public_id=f"chn_{name}",
                account_id=self.acme.account.id,
                name=name,
                type="webhook",
                settings="{}",
                quiet_hours=None if quiet_hours is None else json.dumps(quiet_hours),
                created_at=self.now,
            )
            session.add(channel)
            await session.flush()
            return channel.id

    async def set_enabled(self, channel: int, enabled: bool) -> None:
        """Turn a channel on or off, as the API does."""
        async with self.sessions() as session, session.begin():
            await session.execute(
                update(NotificationChannel).where(NotificationChannel.id == channel).values(enabled=enabled)
            )
            if enabled:
                await look_at_groups(session, channel, self.now)

    async def add_rule(self, name: str, recipients: Sequence[str], **values: Any) -> None:
        """Add a rule. `recipients`: `channel 1`, `person 2`."""
        if values.get("kinds") is not None:
            values["kinds"] = json.dumps(values["kinds"])
        async with self.sessions() as session, session.begin():
            session.add(
                NotificationRule(
                    account_id=self.acme.account.id,
                    name=name,
                    recipients=json.dumps(recipients),
                    created_at=self.now,
                    **values,
                )
            )

    async def emit(
        self, kind: str, subject: str, state: EventState, facts: dict[str, Any] | None = None
    ) -> None:
        """Write an event of the production environment, and process the event."""
        async with self.sessions() as session, session.begin():
            record_alert_event(
                session,
                kind,
                subject,
                state,
                self.now,
                account_id=self.acme.account.id,
                project_id=self.acme.project.id,
                environment_id=self.acme.environment.id,
                facts=facts,
            )
        await self.work()

    async def work(self) -> None:
        """Process all events, and write the notifications that are due now."""
        worker = self.make_worker()
        while await worker.process_some(self.now):
            pass
        await self.writer.write_due(self.now)
        async with self.sessions() as session:
            due = await session.scalar(select(func.min(NotificationGroup.due_at)))
        if due is None:
            assert not self.writer.is_due(self.now + timedelta(days=9000))
        else:
            # The worker must check the groups neither too late nor continuously.
            moment = timedelta(microseconds=1)
            assert [self.writer.is_due(at) for at in (due - moment, due)] == [False, True]

    async def advance(self, seconds: float) -> None:
        """Let time pass: the group worker runs at each time at which a group is due."""
        end = self.now + timedelta(seconds=seconds)
        while True:
            async with self.sessions() as session:
                due = await session.scalar(select(func.min(NotificationGroup.due_at)))
            if due is None or due > end:
                break
            self.now = max(self.now, due)
            await self.work()
        self.now = end

    async def acknowledge(self, family: str, subject: str) -> None:
        """Acknowledge the open incident of a subject."""
        async with self.sessions() as session, session.begin():
            await session.execute(
                update(AlertIncident)
                .where(AlertIncident.open_key == self._key(family, subject))
                .values(acknowledged_at=self.now)
            )

    def _key(self, family: str, subject: str) -> str:
        return f"{self.acme.account.id}/{self.acme.environment.id}/{family}/{subject}"

    async def subjects(self) -> dict[str, str]:
        """Return the subject of each incident by its public ID."""
        async with self.sessions() as session:
            rows = await session.execute(select(AlertIncident.public_id, AlertIncident.subject))
            return {row.public_id: row.subject for row in rows}

    async def silence(self, kinds: Sequence[str] | None, seconds: int, subject: str | None = None) -> None:
        """Silence kinds, or the open incident of a subject, from now on."""
        async with self.sessions() as session, session.begin():
            incident = None
            if subject is not None:
                incident = await session.scalar(
                    select(AlertIncident.id).where(AlertIncident.open_key == self._key("heartbeat", subject))
                )
                if incident is None:
                    return
            session.add(
                NotificationSilence(
                    account_id=self.acme.account.id,
                    kinds=None if kinds is None else json.dumps(kinds),
                    incident_id=incident,
                    starts_at=self.now,
                    ends_at=self.now + timedelta(seconds=seconds),
                    reason="test",
                    created_at=self.now,
                )
            )

    async def messages(self) -> list[tuple[Notification, Message]]:
        """Return all notifications with their content, in the order in which they were written."""
        async with self.sessions() as session:
            rows = (await session.scalars(select(Notification).order_by(Notification.id))).all()
        return [(row, decode_message(row.content)) for row in rows]

    async def forget(self) -> None:
        """Delete everything but channels and rules."""
        async with self.sessions() as session, session.begin():
            for table in (
                NotificationMember,
                Notification,
                NotificationGroup,
                AlertIncident,
                AlertEvent,
                NotificationSilence,
            ):
                await session.execute(delete(table))


async def make_notified(sessions: Sessions, now: datetime) -> Notified:
    """Return a `Notified` for a new account with one project and its production environment."""
    async with sessions() as session, session.begin():
        acme = await make_acme(session, now)
    return Notified(sessions, acme, now)

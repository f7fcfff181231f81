"""Notifications to deliver, to receivers in this process, with a clock that tests move."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec
from sqlalchemy import select, update

from control_domain.accounts.operations import create_account
from control_domain.database.engine import Sessions
from control_domain.tables.accounts import Account
from control_domain.tables.notifications import Notification, NotificationAttempt, NotificationChannel
from notifications.channels.interface import Destination
from notifications.delivery.worker import DeliveryWorker
from notifications.message import Message, Reason, encode_message
from pipeline_contracts.rate_limits import RateLimit
from tests.support.accounts import Acme, make_acme
from tests.support.managed_project import NOW
from tests.support.serve_control import VARIABLE_KEYS

Answer = Callable[[Message], Awaitable[None]]
"""The function of a receiver that takes a message. It raises `DeliveryFailed` to refuse the message."""


async def accept(message: Message) -> None:
    """Accept the message."""


@dataclass(slots=True)
class Receivers:
    """A channel whose destinations are receivers of this process, by name."""

    answers: dict[str, Answer] = field(default_factory=dict)
    """Functions by receiver. A receiver without a function accepts all messages."""
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Receiver and message ID of each request, in the order in which they began."""
    destinations: dict[str, Destination] = field(default_factory=dict)
    busy: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    most_at_once: int = 0

    async def send(self, message: Message, destination: Destination) -> None:
        name = destination.settings.get("url") or destination.settings["address"]
        self.requests.append((name, message.id))
        self.destinations[name] = destination
        self.busy[name] += 1
        assert self.busy[name] == 1, "two messages to one receiver at once"
        self.most_at_once = max(self.most_at_once, sum(self.busy.values()))
        try:
            # Others may start meanwhile.
            await asyncio.sleep(0)
            await self.answers.get(name, accept)(message)
        finally:
            self.busy[name] -= 1

    def of(self, name: str) -> list[str]:
        """Return the IDs of the messages that the receiver was sent."""
        return [message_id for receiver, message_id in self.requests if receiver == name]


@dataclass(slots=True)
class Deliveries:
    """Accounts with channels and notifications, and workers that deliver them."""

    sessions: Sessions
    acme: Acme
    receivers: Receivers = field(default_factory=Receivers)
    now: datetime = NOW
    written: int = 0

    def open_worker(self, receivers: Receivers | None = None, **options: Any) -> DeliveryWorker:
        """Return a worker that sends to these receivers; by default those of the other workers."""
        channels = dict.fromkeys(("webhook", "email"), receivers or self.receivers)
        return DeliveryWorker(self.sessions, channels, VARIABLE_KEYS, clock=lambda: self.now, **options)

    async def deliver(self, after: float = 0.0) -> int:
        """Deliver the messages that are due this many seconds later."""
        self.now += timedelta(seconds=after)
        return await self.open_worker().deliver_due()

    async def add_account(self, name: str) -> Account:
        async with self.sessions() as session, session.begin():
            return await create_account(session, name, name, RateLimit(10, 20), NOW)

    async def add_channel(
        self, name: str, account: Account | None = None, secrets: Mapping[str, str] | None = None
    ) -> NotificationChannel:
        sealed = None if secrets is None else VARIABLE_KEYS.seal(secrets, f"chn_{name}")
        channel = NotificationChannel(
            public_id=f"chn_{name}",
            account_id=(account or self.acme.account).id,
            name=name,
            type="webhook",
            settings=msgspec.json.encode({"url": name}).decode(),
            sealing_key_id=None if sealed is None else sealed.key_id,
            sealed=None if sealed is None else sealed.data,
            created_at=NOW,
        )
        async with self.sessions() as session, session.begin():
            session.add(channel)
        return channel

    async def write(
        self,
        channel: NotificationChannel | None = None,
        *,
        group: int | None = None,
        reason: Reason = "change",
        **values: Any,
    ) -> str:
        """Write a notification as the group worker does, each in a new group; return its message ID."""
        self.written += 1
        message = make_message(f"msg_{self.written:04}", reason, self.now)
        row = {
            "public_id": message.id,
            "account_id": self.acme.account.id if channel is None else channel.account_id,
            "group_id": group or 1000 + self.written,
            "channel_id": None if channel is None else channel.id,
            "recipient": "somebody" if channel is None else channel.name,
            "created_at": self.now,
            "content": encode_message(message).decode(),
            "title": message.title,
            "status": "pending",
            "next_attempt_at": self.now,
        }
        async with self.sessions() as session, session.begin():
            session.add(Notification(**row | values))
        return message.id

    async def change(self, message_id: str, **values: Any) -> None:
        async with self.sessions() as session, session.begin():
            await session.execute(
                update(Notification).where(Notification.public_id == message_id).values(values)
            )

    async def read(self, message_id: str) -> Notification:
        async with self.sessions() as session:
            query = select(Notification).where(Notification.public_id == message_id)
            return (await session.execute(query)).scalar_one()

    async def read_channel(self, channel: NotificationChannel) -> NotificationChannel:
        async with self.sessions() as session:
            return await session.get_one(NotificationChannel, channel.id)

    async def read_statuses(self) -> dict[str, str]:
        async with self.sessions() as session:
            query = select(Notification.public_id, Notification.status).order_by(Notification.id)
            return {row.public_id: row.status for row in await session.execute(query)}

    async def read_attempts(self, message_id: str) -> list[NotificationAttempt]:
        async with self.sessions() as session:
            query = (
                select(NotificationAttempt)
                .join(Notification, Notification.id == NotificationAttempt.notification_id)
                .where(Notification.public_id == message_id)
                .order_by(NotificationAttempt.id)
            )
            return list(await session.scalars(query))


def make_message(message_id: str, reason: Reason, now: datetime) -> Message:
    """Return a message without incidents."""
    return Message(
        id=message_id,
        group_id="grp_1",
        reason=reason,
        state="firing",
        severity="critical",
        family="heartbeat",
        title=f"Message {message_id}",
        created_at=now.isoformat(),
        account="Acme",
        project="shop",
        environment="production",
        incidents=[],
        firing=1,
        resolved=0,
    )


async def open_deliveries(sessions: Sessions) -> Deliveries:
    """Create the account."""
    async with sessions() as session, session.begin():
        acme = await make_acme(session, NOW)
    return Deliveries(sessions, acme)

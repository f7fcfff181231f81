"""Tests of channels, which people start."""

from datetime import datetime, timedelta

from sqlalchemy import between, func, not_, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.alert_events import record_alert_event
from control_domain.audit import Actor, record_audit_entry
from control_domain.notifications.kinds import TEST_KIND
from control_domain.tables.audit import AuditEntry
from control_domain.tables.notifications import Notification, NotificationChannel, NotificationGroup
from pipeline_contracts.errors import Conflict

PAUSE = timedelta(seconds=30)
"""The least time between two tests of a channel, so that the installation cannot be used to flood an e-mail address."""
MAX_TESTS_A_DAY = 200
"""Limit of an account, because a channel could be removed and created again for each test."""
_ACTION = "notification-channel.test"


async def start_test(
    session: AsyncSession, channel: NotificationChannel, actor: Actor, now: datetime
) -> None:
    """Write the event of a test, which is delivered to the channel like every other event. Raises `Conflict` within 30
    s of the last test, and if the account has started too many tests within a day.

    A test that still waits for a retry is canceled: a person usually tests again after a change of the channel.
    """
    table = NotificationChannel
    # This locks the channel. A last test in the future was written by a clock that was ahead, and is ignored.
    is_recent = between(table.tested_at, now - PAUSE, now + PAUSE)
    started = await session.execute(
        update(table)
        .where(
            table.id == channel.id,
            table.account_id == channel.account_id,
            or_(table.tested_at.is_(None), not_(is_recent)),
        )
        .values(tested_at=now)
        .returning(table.id)
        .execution_options(synchronize_session=False)
    )
    if started.first() is None:
        raise Conflict(
            f"The channel {channel.name} was tested less than {PAUSE.seconds} s ago: check whether that test has "
            "arrived, or wait."
        )
    query = select(func.count()).where(
        AuditEntry.account_id == channel.account_id,
        AuditEntry.action == _ACTION,
        AuditEntry.at > now - timedelta(days=1),
    )
    if (await session.execute(query)).scalar_one() >= MAX_TESTS_A_DAY:
        raise Conflict(
            f"The account has started {MAX_TESTS_A_DAY} tests of channels within a day, which is the limit."
        )
    tests = select(NotificationGroup.id).where(
        NotificationGroup.account_id == channel.account_id,
        NotificationGroup.channel_id == channel.id,
        NotificationGroup.family == "test",
    )
    await session.execute(
        update(Notification)
        .where(
            Notification.account_id == channel.account_id,
            Notification.channel_id == channel.id,
            Notification.group_id.in_(tests),
            Notification.status == "pending",
        )
        .values(status="canceled", last_error="Another test follows.", leased_until=None)
        .execution_options(synchronize_session=False)
    )
    record_alert_event(
        session,
        TEST_KIND,
        f"channel {channel.id}",
        "info",
        now,
        account_id=channel.account_id,
        facts={"channel_id": channel.id, "channel": channel.name},
    )
    subject = f"notification-channel {channel.public_id}"
    details = {"name": channel.name}
    record_audit_entry(session, actor, channel.account_id, _ACTION, subject, now, details)

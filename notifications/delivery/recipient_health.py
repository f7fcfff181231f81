"""Applies the outcome of an attempt to the channel, and to the other notifications of the same recipient."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.tables.notifications import Notification, NotificationChannel
from notifications.delivery.attempt import Attempt, Leased, shorten_error
from notifications.delivery.leases import IS_PENDING
from notifications.delivery.retry_schedule import cap_retry_after

_ACTOR = Actor("notifications")


async def note_success(session: AsyncSession, leased: Leased, now: datetime) -> None:
    """Clear the error of the channel. Its other notifications may wait for a retry, or for a pause that the receiver
    has asked for: make them due now."""
    if not leased.attempts and not leased.address.is_failing:
        return
    await _reschedule(session, leased, Notification.next_attempt_at > now, now)
    if leased.channel_id is not None:
        await _update_channel(session, leased, failing_since=None, last_error=None)


async def note_failure(session: AsyncSession, leased: Leased, attempt: Attempt, now: datetime) -> None:
    """Store the error with the channel. If the receiver asks for a pause, pause all its messages. If the receiver no
    longer exists, turn the channel off."""
    if leased.channel_id is not None:
        is_new = NotificationChannel.failing_since.is_(None)
        await _update_channel(session, leased, is_new, failing_since=now)
        await _update_channel(session, leased, last_error=attempt.error)
        if attempt.is_gone:
            await _turn_off(session, leased, attempt, now)
    if attempt.outcome == "retry" and attempt.retry_after is not None:
        free_at = now + timedelta(seconds=cap_retry_after(attempt.retry_after))
        await _reschedule(session, leased, Notification.next_attempt_at < free_at, free_at)


async def _turn_off(session: AsyncSession, leased: Leased, attempt: Attempt, now: datetime) -> None:
    """Turn the channel off and cancel its other notifications, unless somebody has changed the channel during the
    attempt."""
    sealed = leased.address.sealed
    is_unchanged = NotificationChannel.settings == leased.address.settings
    if sealed is not None:
        is_unchanged &= NotificationChannel.sealed == sealed.data
    if not await _update_channel(session, leased, is_unchanged, enabled=False):
        return
    await session.execute(
        update(Notification)
        .where(IS_PENDING, Notification.channel_id == leased.channel_id)
        .values(
            status="canceled",
            leased_until=None,
            last_error=shorten_error(f"The channel was turned off: {attempt.error}"),
        )
        .execution_options(synchronize_session=False)
    )
    record_audit_entry(
        session,
        _ACTOR,
        leased.account_id,
        "notification-channel.turn-off",
        f"notification-channel {leased.address.owner}",
        now,
        {"name": leased.recipient, "reason": attempt.error},
    )


async def _update_channel(
    session: AsyncSession, leased: Leased, *conditions: ColumnElement[bool], **values: Any
) -> bool:
    updated = await session.scalar(
        update(NotificationChannel)
        .where(NotificationChannel.id == leased.channel_id, *conditions)
        .values(values)
        .returning(NotificationChannel.id)
        .execution_options(synchronize_session=False)
    )
    return updated is not None


async def _reschedule(
    session: AsyncSession, leased: Leased, which: ColumnElement[bool], at: datetime
) -> None:
    """Set the time of the next attempt for the other notifications of the recipient."""
    await session.execute(
        update(Notification)
        .where(IS_PENDING, is_of_recipient(leased), which)
        .values(next_attempt_at=at)
        .execution_options(synchronize_session=False)
    )


def is_of_recipient(leased: Leased) -> ColumnElement[bool]:
    """Return an SQL condition: the notification has the same recipient."""
    if leased.channel_id is not None:
        return Notification.channel_id == leased.channel_id
    return Notification.person_id == leased.person_id

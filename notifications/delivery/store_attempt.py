"""Stores an attempt and what follows from it, in one transaction: for the notification, its channel, and the other
notifications of its recipient."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import ColumnElement, or_, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.tables.notifications import Notification, NotificationAttempt, NotificationChannel
from notifications.delivery.leases import IS_PENDING, is_leased, lock_recipient, release_lease
from notifications.delivery.recipients import Address
from notifications.delivery.retry_schedule import RETRY_FOR, cap_retry_after, find_next_attempt
from notifications.message import Message

_MAX_ERROR = 500
_ACTOR = Actor("notifications")


@dataclass(frozen=True, slots=True)
class Leased:
    """A notification that this worker sends."""

    id: int
    until: datetime
    """The end of the lease, which names it."""
    account_id: int
    channel_id: int | None
    person_id: int | None
    recipient: str
    attempts: int
    """Before this one."""
    created_at: datetime
    requested_at: datetime | None
    address: Address
    message: Message


@dataclass(frozen=True, slots=True)
class Attempt:
    """The outcome of one attempt."""

    outcome: Literal["sent", "retry", "failed"]
    at: datetime
    took_ms: int
    error: str | None = None
    retry_after: float | None = None
    is_gone: bool = False
    """True if the channel is to be turned off."""


async def store_attempt(
    session: AsyncSession, leased: Leased, attempt: Attempt, now: datetime
) -> Attempt | None:
    """Store the attempt, and return it as it was stored: the last retry is a failure. Return None, and store nothing,
    if the lease has ended or the notification was canceled meanwhile."""
    await lock_recipient(session, leased.channel_id, leased.person_id)
    retry_at = _plan_retry(leased, attempt, now)
    if attempt.outcome == "retry" and retry_at is None:
        reason = f"{attempt.error} No retry follows: they end after {RETRY_FOR.days} days."
        attempt = replace(attempt, outcome="failed", error=reason)
    error = _shorten(attempt.error)
    values: dict[str, Any] = {
        "last_error": error,
        "attempts": Notification.attempts + 1,
        "leased_until": None,
    }
    if retry_at is not None:
        values["next_attempt_at"] = retry_at
    else:
        values |= {"status": attempt.outcome, "sent_at": now if attempt.outcome == "sent" else None}
    stored = await session.scalar(
        update(Notification)
        .where(is_leased(leased.id, leased.until), IS_PENDING)
        .values(values)
        .returning(Notification.id)
        .execution_options(synchronize_session=False)
    )
    if stored is None:
        # Canceled, or another worker has it. Otherwise the lease would delay the recipient until its end.
        await release_lease(session, leased.id, leased.until)
        return None
    session.add(
        NotificationAttempt(
            notification_id=leased.id,
            at=attempt.at,
            took_ms=attempt.took_ms,
            outcome=attempt.outcome,
            error=error,
            requested=leased.requested_at is not None and leased.attempts == 0,
        )
    )
    if attempt.outcome == "sent":
        await _note_success(session, leased, now)
    else:
        await _note_failure(session, leased, error, now)
        if attempt.outcome == "retry" and attempt.retry_after is not None:
            # The receiver wants no other message before this time either.
            free_at = now + timedelta(seconds=cap_retry_after(attempt.retry_after))
            await _reschedule(session, leased, Notification.next_attempt_at < free_at, free_at)
        if attempt.is_gone:
            await _turn_off(session, leased, error, now)
    return attempt


def _plan_retry(leased: Leased, attempt: Attempt, now: datetime) -> datetime | None:
    if attempt.outcome != "retry":
        return None
    since = leased.requested_at or leased.created_at
    return find_next_attempt(leased.message.id, leased.attempts + 1, since, now, attempt.retry_after)


async def _note_success(session: AsyncSession, leased: Leased, now: datetime) -> None:
    if leased.attempts or leased.address.is_failing:
        # The receiver is back: what waits for a retry need not wait any longer.
        await _reschedule(
            session, leased, (Notification.attempts > 0) & (Notification.next_attempt_at > now), now
        )
    if leased.channel_id is not None:
        is_marked = or_(
            NotificationChannel.failing_since.is_not(None), NotificationChannel.last_error.is_not(None)
        )
        await _update_channel(session, leased, is_marked, failing_since=None, last_error=None)


async def _note_failure(session: AsyncSession, leased: Leased, error: str | None, now: datetime) -> None:
    if leased.channel_id is None:
        return
    is_new = NotificationChannel.failing_since.is_(None)
    await _update_channel(session, leased, is_new, failing_since=now)
    await _update_channel(session, leased, last_error=error)


async def _turn_off(session: AsyncSession, leased: Leased, error: str | None, now: datetime) -> None:
    """Turn the channel off and cancel its other notifications, unless somebody has changed it during the attempt."""
    if leased.channel_id is None:
        return
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
            last_error=_shorten(f"The channel was turned off: {error}"),
        )
        .execution_options(synchronize_session=False)
    )
    record_audit_entry(
        session,
        _ACTOR,
        leased.account_id,
        "notification_channel.turn_off",
        f"notification_channel {leased.address.owner}",
        now,
        {"reason": error},
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
    """Change when the other notifications of the recipient are tried."""
    of_recipient = (
        Notification.channel_id == leased.channel_id
        if leased.channel_id is not None
        else Notification.person_id == leased.person_id
    )
    await session.execute(
        update(Notification)
        .where(IS_PENDING, of_recipient, which)
        .values(next_attempt_at=at)
        .execution_options(synchronize_session=False)
    )


def _shorten(error: str | None) -> str | None:
    return None if error is None else error[:_MAX_ERROR]

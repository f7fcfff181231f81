"""Stores an attempt and what follows from it in one transaction."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import exists, literal, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.tables.notifications import Notification, NotificationAttempt
from notifications.delivery.attempt import Attempt, Leased, shorten_error
from notifications.delivery.leases import IS_PENDING, is_leased, lock_recipient, release_lease
from notifications.delivery.recipient_health import is_of_recipient, note_failure, note_success
from notifications.delivery.retry_schedule import RETRY_FOR, find_next_attempt

# Maximum number of attempts if the receiver refuses this message but accepts others.
_MAX_REFUSALS = 8


async def store_attempt(
    session: AsyncSession, leased: Leased, attempt: Attempt, now: datetime
) -> Attempt | None:
    """Store the attempt. Return it as it was stored: a retry becomes a failure if no further attempt follows. If the
    lease has ended or the notification was canceled meanwhile, store nothing and return None."""
    await lock_recipient(session, leased.channel_id, leased.person_id)
    attempt, retry_at = await _plan_retry(session, leased, attempt, now)
    values: dict[str, Any] = {"last_error": attempt.error, "attempts": Notification.attempts + 1}
    if retry_at is not None:
        values["next_attempt_at"] = retry_at
    else:
        values["status"] = attempt.outcome
        if attempt.outcome == "sent":
            values["sent_at"] = now
    stored = await session.scalar(
        update(Notification)
        .where(is_leased(leased.id, leased.until), IS_PENDING)
        .values(leased_until=None, **values)
        .returning(Notification.id)
        .execution_options(synchronize_session=False)
    )
    if stored is None:
        # The notification was canceled, or another worker has it. If it was canceled, its lease must end now, or the
        # lease would delay the recipient's other notifications.
        await release_lease(session, leased.id, leased.until)
        return None
    session.add(
        NotificationAttempt(
            notification_id=leased.id,
            at=attempt.at,
            took_ms=attempt.took_ms,
            outcome=attempt.outcome,
            error=attempt.error,
            requested=leased.requested_at is not None and leased.attempts == 0,
        )
    )
    if attempt.outcome == "sent":
        await note_success(session, leased, now)
    else:
        await note_failure(session, leased, attempt, now)
    return attempt


async def _plan_retry(
    session: AsyncSession, leased: Leased, attempt: Attempt, now: datetime
) -> tuple[Attempt, datetime | None]:
    """Return the attempt with its final outcome, and the time of the next attempt or None."""
    if attempt.outcome != "retry":
        return attempt, None
    since = leased.requested_at or leased.created_at
    retry_at = find_next_attempt(leased.message.id, leased.attempts + 1, since, now, attempt.retry_after)
    if retry_at is None:
        return _give_up(attempt, f"No retry follows: they end after {RETRY_FOR.days} days."), None
    if await _is_refused_alone(session, leased):
        reason = "No retry follows: the receiver accepts other messages, which wait for this one."
        return _give_up(attempt, reason), None
    return attempt, retry_at


def _give_up(attempt: Attempt, reason: str) -> Attempt:
    return replace(attempt, outcome="failed", error=shorten_error(f"{attempt.error} {reason}"))


async def _is_refused_alone(session: AsyncSession, leased: Leased) -> bool:
    """Return True if the receiver has often refused this message, has accepted another message since the previous
    attempt, and later messages of the group wait for this one. Otherwise one message that a receiver cannot handle
    would block all following ones for days."""
    if leased.attempts + 1 < _MAX_REFUSALS or leased.requested_at is not None:
        return False
    waits = exists().where(IS_PENDING, Notification.group_id == leased.group_id, Notification.id > leased.id)
    previous = (
        select(NotificationAttempt.at)
        .where(NotificationAttempt.notification_id == leased.id)
        .order_by(NotificationAttempt.id.desc())
        .limit(1)
    )
    is_accepted = exists().where(
        is_of_recipient(leased),
        Notification.status == "sent",
        Notification.sent_at >= previous.scalar_subquery(),
    )
    return await session.scalar(select(literal(True)).where(waits, is_accepted)) is not None

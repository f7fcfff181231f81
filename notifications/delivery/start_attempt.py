"""Leases a notification and reads everything that an attempt needs, in one transaction."""

from datetime import datetime
from typing import Literal

import msgspec
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.tables.notifications import Notification
from notifications.delivery.attempt import Leased
from notifications.delivery.leases import IS_PENDING, Due, take_lease
from notifications.delivery.recipients import NoRecipient, find_address
from notifications.message import Message, decode_message

_UNREADABLE = "The stored message cannot be read by this version of Pharos."
_SUPERSEDED = "A newer message of the same incidents follows."


async def start_attempt(
    session: AsyncSession, due: Due, now: datetime, lease_seconds: float
) -> Leased | Literal["not due", "ended"]:
    """Lease the notification, and return what the attempt needs. If the recipient has no access, or if a newer
    message replaces this one, the notification ends without an attempt."""
    row = await take_lease(session, due, now, lease_seconds)
    if row is None or row.leased_until is None:
        return "not due"
    try:
        message = decode_message(row.content)
        address = await find_address(session, row)
    except msgspec.DecodeError:
        return _end(row, "failed", _UNREADABLE)
    except NoRecipient as reason:
        return _end(row, "canceled", str(reason))
    if await _is_superseded(session, row, message):
        return _end(row, "canceled", _SUPERSEDED)
    return Leased(
        id=row.id,
        until=row.leased_until,
        account_id=row.account_id,
        channel_id=row.channel_id,
        person_id=row.person_id,
        group_id=row.group_id,
        recipient=row.recipient,
        attempts=row.attempts,
        created_at=row.created_at,
        requested_at=row.requested_at,
        address=address,
        message=message,
    )


async def _is_superseded(session: AsyncSession, row: Notification, message: Message) -> bool:
    """Return True if the message is a reminder and its group has a newer message, such as the next reminder or the
    resolution.

    Only reminders are replaced, because every other message lists changes that no other message lists. If a receiver
    was down for a day, only the last reminder is sent.
    """
    if message.reason != "reminder" or row.requested_at is not None:
        return False
    newer = select(Notification.id).where(
        IS_PENDING, Notification.group_id == row.group_id, Notification.id > row.id
    )
    return await session.scalar(newer.limit(1)) is not None


def _end(row: Notification, status: str, reason: str) -> Literal["ended"]:
    row.status, row.last_error, row.leased_until = status, reason, None
    return "ended"

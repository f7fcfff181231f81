"""Describes an attempt to deliver a notification: its input and its outcome."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from notifications.delivery.recipients import Address
from notifications.message import Message

_MAX_ERROR = 500


@dataclass(frozen=True, slots=True)
class Leased:
    """A notification that this worker has leased and is sending."""

    id: int
    until: datetime
    """When the lease ends. This time identifies the lease."""
    account_id: int
    channel_id: int | None
    person_id: int | None
    group_id: int
    recipient: str
    attempts: int
    """Number of earlier attempts."""
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
    """Why the attempt failed, for people; at most 500 characters."""
    retry_after: float | None = None
    is_gone: bool = False
    """True if the channel must be turned off."""


def shorten_error(text: str) -> str:
    """Return the text, cut to the length of the database columns for errors."""
    return text[:_MAX_ERROR]

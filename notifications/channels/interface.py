"""The interface of a channel type. A channel sends a message once. The delivery worker is responsible for retries,
order and leases."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from notifications.message import Message


@dataclass(frozen=True, slots=True)
class Destination:
    """The receiver of a message."""

    type: str
    """The name of the channel type."""
    settings: Mapping[str, Any]
    secrets: Mapping[str, str] = field(repr=False)


class DeliveryFailed(Exception):
    """The receiver did not accept the message. The text is for people. It contains neither a secret nor a URL with a
    secret."""

    def __init__(
        self,
        message: str,
        *,
        is_permanent: bool = False,
        is_gone: bool = False,
        retry_after: float | None = None,
    ) -> None:
        """`is_permanent`: another attempt to send this message cannot succeed. `is_gone`: no message can succeed,
        because the receiver no longer exists (410); the channel is then turned off. `retry_after`: how many seconds
        the receiver asks to wait."""
        super().__init__(message)
        self.is_permanent = is_permanent or is_gone
        self.is_gone = is_gone
        self.retry_after = retry_after


class Channel(Protocol):
    """Sends messages of one channel type."""

    async def send(self, message: Message, destination: Destination) -> None:
        """Send the message once. Return when the receiver has accepted it, after at most 15 s.

        Raises `DeliveryFailed`.
        """
        ...

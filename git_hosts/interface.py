"""What every provider's module has."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from git_hosts.notices import Notice, WebhookSecret

Headers = Mapping[str, Sequence[str]]
"""All values of each header, by its name in small letters."""


class Provider(Protocol):
    """How one kind of Git host signs and writes its webhooks."""

    def verify(self, raw: bytes, headers: Headers, secret: WebhookSecret, now: datetime) -> None:
        """Raises `BadSignature` unless the host has sent exactly these bytes."""

    def delivery(self, headers: Headers) -> str | None:
        """The host's ID of this delivery, the same when it is sent again; None: it gives none. Raises
        `PayloadNotUsable`."""

    def event(self, headers: Headers) -> str:
        """The event as the host calls it. Raises `PayloadNotUsable`."""

    def read(self, event: str, raw: bytes, headers: Headers) -> Notice:
        """What the body tells. Raises `PayloadNotUsable`."""

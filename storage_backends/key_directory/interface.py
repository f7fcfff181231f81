"""What the edge and the control plane need of the key directory."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.rate_limits import RateLimit


@dataclass(frozen=True, slots=True)
class SiteEntry:
    """What a tracker ID opens: collection for a site, from these origins (`pipeline_contracts.origins`)."""

    site_id: int
    origins: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """One ingest or monitor key, or a site's tracker ID: whose it is, what it opens and how fast its account may
    send."""

    digest: bytes
    kind: CredentialKind
    account_id: str
    project_id: str
    environment_id: str
    limit: RateLimit
    expires_ms: int | None = None
    """When it stops working, milliseconds since 1970; None: never."""
    monitor: str | None = None
    """What a monitor key opens, `heartbeat/7` or `queue/3`; None for an ingest key."""
    site: SiteEntry | None = None
    """What a tracker ID opens; None for a key."""


ReadEntries = Callable[[], Awaitable[Sequence[KeyEntry]]]
"""Reads every live key, as of the moment of the call or later."""


class KeyDirectory(Protocol):
    """Keys by the SHA-256 of the secret."""

    async def find(self, digest: bytes) -> KeyEntry | None:
        """The entry of this digest. Raises `StorageUnavailable` when that cannot be told."""
        ...

    async def publish(self, entry: KeyEntry) -> None:
        """Make a key known, or what it opens changed. Raises `StorageUnavailable`."""
        ...

    async def revoke(self, digest: bytes) -> None:
        """Make a key unknown, to every edge within 5 s. Raises `StorageUnavailable`."""
        ...

    async def publish_all(self, read: ReadEntries) -> int:
        """Make exactly those keys known that `read` gives; returns their number.

        A key that was published or revoked since `read` was called stays as that says; all else that the list does not
        have ends. Raises `StorageUnavailable`, and what `read` raises.
        """
        ...

    async def is_complete(self) -> bool:
        """Whether all keys have been published into it: False after it was lost, or after an outage in which it may
        have missed changes. Raises `StorageUnavailable`."""
        ...

    async def close(self) -> None:
        """Release the engine."""
        ...

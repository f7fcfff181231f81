"""The interface of the key directory, for the edge and the control plane."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.rate_limits import RateLimit


@dataclass(frozen=True, slots=True)
class SiteEntry:
    """The site whose events a tracker ID may send, and the allowed origins (`pipeline_contracts.origins`)."""

    site_id: int
    origins: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A key, a site's tracker ID or a heartbeat's name: its owner, its scope, and its account's rate limit."""

    digest: bytes
    kind: CredentialKind
    account_id: str
    project_id: str
    environment_id: str
    limit: RateLimit
    expires_ms: int | None = None
    """Time of expiry, milliseconds since 1970; None: never."""
    monitor: str | None = None
    """The monitor of a monitor key, a ping key or a name, `heartbeat/7` or `queue/3`; None for other keys."""
    site: SiteEntry | None = None
    """The site of a tracker ID; None for a key."""
    may_create: bool = False
    """True for the ping key of an environment in which pings may create heartbeats: it has not too many yet."""
    is_application_key: bool = False
    """True for the ingest key that a deployed application gets from the platform: it may send OTLP in protobuf."""


ReadEntries = Callable[[], Awaitable[Sequence[KeyEntry]]]
"""Reads all valid keys, as of the time of the call or later."""


class KeyDirectory(Protocol):
    """Keys by the SHA-256 of the secret."""

    async def find(self, digest: bytes) -> KeyEntry | None:
        """Return the entry of this digest; None if there is no such key. Raises `StorageUnavailable` if that is
        unknown."""
        ...

    def find_known(self, digest: bytes) -> KeyEntry | None:
        """Return the entry of this digest if it is known without waiting, and current; None otherwise."""
        ...

    async def publish(self, entry: KeyEntry) -> None:
        """Add a key, or replace its entry. Raises `StorageUnavailable`."""
        ...

    async def revoke(self, digest: bytes) -> None:
        """Remove a key; every edge refuses it within 5 s. Raises `StorageUnavailable`."""
        ...

    async def publish_all(self, read: ReadEntries) -> int:
        """Replace all keys by those that `read` returns; return their number.

        A key that was published or revoked after the call of `read` keeps that change. Raises `StorageUnavailable` and
        the errors of `read`.
        """
        ...

    async def is_complete(self) -> bool:
        """Return True if the directory has all keys: False after it lost its data, or after an outage in which it may
        have missed changes. Raises `StorageUnavailable`."""
        ...

    async def close(self) -> None:
        """Release the engine."""
        ...

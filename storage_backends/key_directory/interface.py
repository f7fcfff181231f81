"""The interface of the key directory. The control plane publishes keys through it, and the edge looks keys up."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.rate_limits import RateLimit


@dataclass(frozen=True, slots=True)
class SiteEntry:
    """The site to which a tracker ID may send events, and the origins that may send them
    (`pipeline_contracts.origins`)."""

    site_id: int
    origins: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """What the directory knows about a key, a site's tracker ID or a heartbeat's name: its owner, its scope, and the
    rate limit of its account."""

    digest: bytes
    kind: CredentialKind
    account_id: str
    project_id: str
    environment_id: str
    limit: RateLimit
    expires_ms: int | None = None
    """When the key expires, in milliseconds since 1970. None: never."""
    monitor: str | None = None
    """The monitor of a monitor key, a ping key or a heartbeat's name, such as `heartbeat/7` or `queue/3`. None for
    other keys."""
    site: SiteEntry | None = None
    """The site of a tracker ID. None for a key."""
    may_create: bool = False
    """True for an environment's ping key whose pings may create heartbeats: the environment has not reached its limit
    of heartbeats yet."""
    is_application_key: bool = False
    """True for the ingest key that the platform gives to a deployed application. Such a key may send OTLP in
    protobuf."""


ReadEntries = Callable[[], Awaitable[Sequence[KeyEntry]]]
"""Reads all valid keys, as of the time of the call or later."""


class KeyDirectory(Protocol):
    """Stores the entries of keys by the SHA-256 digest of the secret."""

    async def find(self, digest: bytes) -> KeyEntry | None:
        """Return the entry for this digest. None if there is no such key. Raises `StorageUnavailable` if it is unknown
        whether there is one."""
        ...

    def find_known(self, digest: bytes) -> KeyEntry | None:
        """Return the entry for this digest if the directory knows a current one without waiting. None otherwise."""
        ...

    async def publish(self, entry: KeyEntry) -> None:
        """Add a key, or replace its entry. Raises `StorageUnavailable`."""
        ...

    async def revoke(self, digest: bytes) -> None:
        """Remove a key. Every edge refuses the key within 5 s. Raises `StorageUnavailable`."""
        ...

    async def publish_all(self, read: ReadEntries) -> int:
        """Replace all keys by those that `read` returns. Return their number.

        If a key was published or revoked after `read` was called, this change stays. Raises `StorageUnavailable` and
        the errors of `read`.
        """
        ...

    async def is_complete(self) -> bool:
        """Return True if the directory has all keys. Return False if it has lost its data, or if it may have missed
        changes during an outage. Raises `StorageUnavailable`."""
        ...

    async def close(self) -> None:
        """Release the engine."""
        ...

"""The interface of the salts with which visitors are hashed."""

from typing import Final, Protocol

from pipeline_contracts.times import DAY_MS

SALT_BYTES: Final = 16
LIFETIME_MS: Final = 2 * DAY_MS
"""Lifetime of a salt in milliseconds, from the beginning of its day (UTC). After a salt is deleted, a hash can no
longer be traced to a visitor."""


class Salts(Protocol):
    """Stores a salt of 16 random bytes for each day. All edges use the same salt."""

    async def find_or_create(self, day: int, now_ms: int, offer: bytes | None = None) -> bytes | None:
        """Return the salt of `day` (days since 1970, UTC). Return None if the lifetime of the salt is over at
        `now_ms`. If no salt is stored, store `offer`, the salt of that day that an edge still has, or else a new salt.
        Raises `StorageUnavailable`."""
        ...

    async def delete_expired(self, now_ms: int) -> None:
        """Delete all salts whose lifetime is over by `now_ms`. Raises `StorageUnavailable`."""
        ...

    async def close(self) -> None:
        """Release the engine."""
        ...

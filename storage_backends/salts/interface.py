"""The interface of the salts that visitors are hashed with."""

from typing import Final, Protocol

from pipeline_contracts.times import DAY_MS

SALT_BYTES: Final = 16
LIFETIME_MS: Final = 2 * DAY_MS
"""Lifetime of a salt from the beginning of its day (UTC). After its deletion a hash cannot be traced to a visitor."""


class Salts(Protocol):
    """A salt of 16 random bytes for each day, the same for every edge."""

    async def find_or_create(self, day: int, now_ms: int, offer: bytes | None = None) -> bytes | None:
        """Return the salt of a day (days since 1970, UTC); None if its lifetime is over by `now_ms`. A missing salt is
        created: as `offer` if given, the salt of that day that an edge still has. Raises `StorageUnavailable`."""
        ...

    async def delete_expired(self, now_ms: int) -> None:
        """Delete all salts whose lifetime is over by `now_ms`. Raises `StorageUnavailable`."""
        ...

    async def close(self) -> None:
        """Release the engine."""
        ...

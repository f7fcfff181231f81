"""What the edge needs of the salts under which visitors are hashed."""

from typing import Final, Protocol

from pipeline_contracts.times import DAY_MS

SALT_BYTES: Final = 16
LIFE_MS: Final = 2 * DAY_MS
"""From the begin of its day (UTC) on; then a salt is deleted, and nobody can tell any more whose a hash was."""


class Salts(Protocol):
    """A salt of 16 random bytes for each day, the same for every edge."""

    async def find_or_make(self, day: int, now_ms: int, offer: bytes | None = None) -> bytes | None:
        """The salt of a day, counted from 1970 (UTC), made if there is none: `offer` if given, which is what an edge
        has of it from before. None for a day whose salt is deleted by `now_ms`. Raises `StorageUnavailable`."""
        ...

    async def forget(self, now_ms: int) -> None:
        """Delete every salt whose life is over by then. Raises `StorageUnavailable`."""
        ...

    async def close(self) -> None:
        """Release the engine."""
        ...

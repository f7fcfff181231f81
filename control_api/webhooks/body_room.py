"""How much is read of callers who have proved nothing yet."""

from collections.abc import Iterator
from contextlib import contextmanager

from pipeline_contracts.errors import Unavailable

_MOST_HELD = 64 * 2**20


class BodyRoom:
    """How much of bodies is held at once, of callers who have proved nothing yet."""

    def __init__(self, most: int = _MOST_HELD) -> None:
        self._most = most
        self._held = 0

    @contextmanager
    def reading(self) -> Iterator["_Reading"]:
        """A body that is being read; its room is free again at the end."""
        reading = _Reading(self)
        try:
            yield reading
        finally:
            self._held -= reading.held

    def take(self, count: int) -> None:
        if self._held + count > self._most:
            raise Unavailable("Too many webhooks arrive at once. Send it again.", retry_after=5)
        self._held += count


class _Reading:
    def __init__(self, room: BodyRoom) -> None:
        self._room = room
        self.held = 0

    def hold(self, count: int) -> None:
        """Raises `Unavailable` where there is no room."""
        self._room.take(count)
        self.held += count

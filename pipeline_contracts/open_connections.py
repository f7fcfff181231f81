"""Connections that share a limit, of which idle ones give way."""

from collections import OrderedDict
from typing import Protocol

# How many connections are looked at for one that is idle.
_LOOKS = 256


class OpenConnection(Protocol):
    """What is asked of a connection."""

    @property
    def is_idle(self) -> bool: ...
    def force_close(self) -> None: ...


class OpenConnections:
    """Those that are open, the one whose last request is the longest ago first."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._open: OrderedDict[OpenConnection, None] = OrderedDict()

    @property
    def is_full(self) -> bool:
        """Whether none may be added."""
        return len(self._open) >= self.most

    def add(self, connection: OpenConnection) -> None:
        """Count it until `remove`."""
        self._open[connection] = None

    def remove(self, connection: OpenConnection) -> None:
        """Count it no longer."""
        self._open.pop(connection, None)

    def touch(self, connection: OpenConnection) -> None:
        """Note that a request has come on it."""
        if connection in self._open:
            self._open.move_to_end(connection)

    def longest_idle(self) -> OpenConnection | None:
        """The one to be closed for another one; None where those that were looked at have requests in progress."""
        for _ in range(min(_LOOKS, len(self._open))):
            connection = next(iter(self._open))
            if connection.is_idle:
                return connection
            # Its request will have been the last thing that it did.
            self._open.move_to_end(connection)
        return None

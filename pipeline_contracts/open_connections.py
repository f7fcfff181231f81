"""Counts the connections of each address, of this machine and of all, and refuses or closes those over the limits."""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

from pipeline_contracts.client_address import is_loopback, network_of
from pipeline_contracts.errors import Unavailable

logger = logging.getLogger(__name__)

UNCOUNTED = ""
"""The place of a connection that no limit of an address applies to."""

_SECONDS_BETWEEN_LINES = 60.0
# How many connections are looked at for one that is idle.
_LOOKS = 256


class OpenConnection(Protocol):
    """What is asked of a connection."""

    @property
    def is_idle(self) -> bool:
        """True if the connection waits for a request and has no unsent bytes: `force_close` then frees the descriptor
        at once."""

    def force_close(self) -> None: ...


class Transport(Protocol):
    """What is asked of a transport."""

    def get_extra_info(self, name: str) -> Any: ...


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


class Connections:
    """The places that are left: `most` for each address, `loopback` for this machine, `total` for all.

    Trusted proxies carry everybody's requests over few addresses, and a connection of a socket file has none: only the
    total bounds them. Over loopback come gateways, too, but also what is deployed here. Its limit and the total close
    the connection that has been idle for longest instead of refusing a new one, as long as any is: whoever holds
    connections without using them takes nothing from others.

    `name` is what the log calls the connections.
    """

    def __init__(
        self,
        most: int,
        is_trusted: Callable[[str], bool],
        *,
        name: str = "connections",
        loopback: int = 16_384,
        total: int = 32_768,
    ) -> None:
        self._most = most
        self._is_trusted = is_trusted
        self._name = name
        self._open: dict[str, int] = {}
        self._loopback = OpenConnections(loopback)
        self._all = OpenConnections(total)
        self._logged = -_SECONDS_BETWEEN_LINES

    def enter(self, transport: Transport, connection: OpenConnection) -> str:
        """Take a place, and return its name for `leave`. Raises `Unavailable`."""
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if isinstance(peer, tuple) else ""
        place = UNCOUNTED
        pools: tuple[OpenConnections, ...] = (self._all,)
        if address and not self._is_trusted(address.removeprefix("::ffff:")):
            if is_loopback(address):
                pools = (self._loopback, self._all)
            else:
                place = network_of(address)
        count = self._open.get(place, 0)
        if place and count >= self._most:
            self._log()
            raise Unavailable(
                f"This address has {self._most:,} connections already. Reuse or close some of them."
            )
        for pool in pools:
            self._make_room(pool)
        for pool in pools:
            pool.add(connection)
        if place:
            self._open[place] = count + 1
        return place

    def touch(self, connection: OpenConnection) -> None:
        """Note that a request has come on it."""
        self._loopback.touch(connection)
        self._all.touch(connection)

    def leave(self, place: str, connection: OpenConnection) -> None:
        """Give a place back."""
        self._forget(connection)
        if place:
            left = self._open[place] - 1
            if left:
                self._open[place] = left
            else:
                del self._open[place]

    def _make_room(self, pool: OpenConnections) -> None:
        if not pool.is_full:
            return
        idle = pool.longest_idle()
        if idle is None:
            raise Unavailable(f"All {pool.most:,} connections are in use. Try again later.")
        # The place is free at once: an idle connection has nothing to send, so nothing delays its end.
        self._forget(idle)
        idle.force_close()

    def _forget(self, connection: OpenConnection) -> None:
        self._loopback.remove(connection)
        self._all.remove(connection)

    def _log(self) -> None:
        # No address in the log, for privacy; a rate-limited line, because a flood must not fill the disk.
        if time.monotonic() - self._logged >= _SECONDS_BETWEEN_LINES:
            self._logged = time.monotonic()
            logger.warning(
                "an address has over %d %s: further ones are refused. If it is a gateway, name it in "
                "PHAROS_TRUSTED_PROXIES",
                self._most,
                self._name,
            )

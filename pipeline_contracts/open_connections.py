"""Limit the open connections of each client address, of this machine, and in total."""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

from pipeline_contracts.client_address import is_loopback, network_of
from pipeline_contracts.errors import Unavailable

logger = logging.getLogger(__name__)

NO_ADDRESS = ""
"""The limit key of a connection without a limit for its address."""

_SECONDS_BETWEEN_LINES = 60.0
# How many connections a search for an idle one may examine.
_MAX_EXAMINED = 256


class OpenConnection(Protocol):
    """The methods of a connection that the limiter needs."""

    @property
    def is_idle(self) -> bool:
        """True if the connection waits for a request and has no unsent bytes: `force_close` then frees the descriptor
        at once."""

    def force_close(self) -> None: ...


class Transport(Protocol):
    """The method of a transport that the limiter needs."""

    def get_extra_info(self, name: str) -> Any: ...


class OpenConnections:
    """Up to `maximum` open connections, the least recently used first."""

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self._open: OrderedDict[OpenConnection, None] = OrderedDict()

    @property
    def is_full(self) -> bool:
        return len(self._open) >= self.maximum

    def add(self, connection: OpenConnection) -> None:
        """Count the connection until `remove`."""
        self._open[connection] = None

    def remove(self, connection: OpenConnection) -> None:
        """Stop counting the connection."""
        self._open.pop(connection, None)

    def touch(self, connection: OpenConnection) -> None:
        """Mark the connection as the most recently used."""
        if connection in self._open:
            self._open.move_to_end(connection)

    def find_idle(self) -> OpenConnection | None:
        """Return the idle connection that was used least recently; None if none of the examined ones is idle."""
        for _ in range(min(_MAX_EXAMINED, len(self._open))):
            connection = next(iter(self._open))
            if connection.is_idle:
                return connection
            # Its request is in progress, so this is its most recent use.
            self._open.move_to_end(connection)
        return None


class ConnectionLimiter:
    """Admits up to `per_address` connections of each address, `loopback` of this machine, and `total` of all.

    Only the total limits trusted proxies, which carry everybody's requests over few addresses, and connections of a
    socket file, which have no address. At the limits of loopback and of the total, the connection that has been idle
    for longest is closed for a new one, and only if none is idle the new one is refused: unused connections of one
    client cannot lock out others.

    `name` is the name of the connections in the log.
    """

    def __init__(
        self,
        per_address: int,
        is_trusted: Callable[[str], bool],
        *,
        name: str = "connections",
        loopback: int = 16_384,
        total: int = 32_768,
    ) -> None:
        self._per_address = per_address
        self._is_trusted = is_trusted
        self._name = name
        self._counts: dict[str, int] = {}
        self._loopback = OpenConnections(loopback)
        self._all = OpenConnections(total)
        self._logged_at = -_SECONDS_BETWEEN_LINES

    def admit(self, transport: Transport, connection: OpenConnection) -> str:
        """Count a new connection, and return its limit key for `release`. Raises `Unavailable`."""
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if isinstance(peer, tuple) else ""
        key = NO_ADDRESS
        pools: tuple[OpenConnections, ...] = (self._all,)
        if address and not self._is_trusted(address.removeprefix("::ffff:")):
            if is_loopback(address):
                pools = (self._loopback, self._all)
            else:
                key = network_of(address)
        count = self._counts.get(key, 0)
        if key and count >= self._per_address:
            self._log_refusal()
            raise Unavailable(
                f"This address has {self._per_address:,} connections already. Reuse or close some of them."
            )
        for pool in pools:
            self._close_idle_if_full(pool)
        for pool in pools:
            pool.add(connection)
        if key:
            self._counts[key] = count + 1
        return key

    def touch(self, connection: OpenConnection) -> None:
        """Mark the connection as the most recently used, when a request arrives."""
        self._loopback.touch(connection)
        self._all.touch(connection)

    def release(self, key: str, connection: OpenConnection) -> None:
        """Stop counting a connection. `key` comes from `admit`."""
        self._remove(connection)
        if key:
            remaining = self._counts[key] - 1
            if remaining:
                self._counts[key] = remaining
            else:
                del self._counts[key]

    def _close_idle_if_full(self, pool: OpenConnections) -> None:
        if not pool.is_full:
            return
        idle = pool.find_idle()
        if idle is None:
            raise Unavailable(f"All {pool.maximum:,} connections are in use. Try again later.")
        # An idle connection has nothing to send, so it closes at once.
        self._remove(idle)
        idle.force_close()

    def _remove(self, connection: OpenConnection) -> None:
        self._loopback.remove(connection)
        self._all.remove(connection)

    def _log_refusal(self) -> None:
        # No address in the log, for privacy; a rate-limited line, because a flood must not fill the disk.
        if time.monotonic() - self._logged_at >= _SECONDS_BETWEEN_LINES:
            self._logged_at = time.monotonic()
            logger.warning(
                "an address has over %d %s: further ones are refused. If it is a gateway, name it in "
                "PHAROS_TRUSTED_PROXIES",
                self._per_address,
                self._name,
            )

"""Counts the connections of each address, of this machine and of all, and refuses or closes those over the limits."""

import asyncio
import ipaddress
import logging
import time
from functools import lru_cache

import orjson

from pipeline_contracts.client_address import ClientAddresses, network_of
from pipeline_contracts.errors import Unavailable
from pipeline_contracts.open_connections import OpenConnection, OpenConnections
from pipeline_contracts.request_ids import request_id

logger = logging.getLogger(__name__)

UNCOUNTED = ""
"""The place of a connection that no limit applies to."""

_SECONDS_BETWEEN_LINES = 60.0


class Connections:
    """The places that are left: `most` for each address, `loopback` for this machine, `total` for all.

    Trusted proxies carry everybody's requests over few addresses, and a connection of a socket file has none: only the
    total bounds them. Over loopback come gateways, too, but also what is deployed here. Its limit and the total close
    the connection that has been idle for longest instead of refusing a new one, as long as any is.
    """

    def __init__(
        self, most: int, trusted: ClientAddresses, *, loopback: int = 16_384, total: int = 32_768
    ) -> None:
        self._most = most
        self._trusted = trusted
        self._open: dict[str, int] = {}
        self._loopback = OpenConnections(loopback)
        self._all = OpenConnections(total)
        self._said = -_SECONDS_BETWEEN_LINES

    def enter(self, transport: asyncio.BaseTransport, connection: OpenConnection) -> str:
        """Take a place, and return its name for `leave`. Raises `Unavailable`."""
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if isinstance(peer, tuple) else ""
        place = UNCOUNTED
        pools: tuple[OpenConnections, ...] = (self._all,)
        if address and not self._trusted.is_trusted(address):
            if is_loopback(address):
                pools = (self._loopback, self._all)
            else:
                place = network_of(address)
        count = self._open.get(place, 0)
        if place and count >= self._most:
            self._log()
            raise Unavailable(
                f"This address has {self._most} connections already. Reuse or close some of them."
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
        # Its place is free at once; it leaves as soon as its transport has closed.
        self._forget(idle)
        idle.force_close()

    def _forget(self, connection: OpenConnection) -> None:
        self._loopback.remove(connection)
        self._all.remove(connection)

    def _log(self) -> None:
        # No address in the log, for privacy; a rate-limited line, because a flood must not fill the disk.
        if time.monotonic() - self._said >= _SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            logger.warning(
                "an address has over %d connections: further ones are refused. If it is a gateway, name it in "
                "PHAROS_TRUSTED_PROXIES",
                self._most,
            )


def raw_answer(problem: Unavailable) -> bytes:
    """A whole HTTP answer, for a connection that is not read from."""
    body = orjson.dumps(problem.to_document())
    head = (
        f"HTTP/1.1 {problem.status} {problem.title}\r\nServer: pharos\r\nConnection: close\r\n"
        f"Content-Type: application/problem+json\r\nContent-Length: {len(body)}\r\n"
        f"Retry-After: {problem.headers['Retry-After']}\r\nX-Request-Id: {request_id(None)}\r\n\r\n"
    )
    return head.encode("ascii") + body


@lru_cache(4096)
def is_loopback(address: str) -> bool:
    """Whether the address is of this machine."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(parsed, "ipv4_mapped", None)
    return (mapped or parsed).is_loopback

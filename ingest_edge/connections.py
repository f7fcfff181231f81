"""Counts the connections of each address, and refuses those over the limit."""

import asyncio
import ipaddress
import logging
import time
from functools import lru_cache

import orjson

from pipeline_contracts.client_address import ClientAddresses, network_of
from pipeline_contracts.errors import Unavailable
from pipeline_contracts.request_ids import request_id

logger = logging.getLogger(__name__)

UNCOUNTED = ""
"""The place of a connection that no limit applies to."""

_SECONDS_BETWEEN_LINES = 60.0


class Connections:
    """The places that each address has left.

    Trusted proxies carry everybody's requests over few addresses, and a gateway on this machine does, too: neither has
    a limit. Nor has a connection without an address, of a socket file.
    """

    def __init__(self, most: int, trusted: ClientAddresses) -> None:
        self._most = most
        self._trusted = trusted
        self._open: dict[str, int] = {}
        self._said = -_SECONDS_BETWEEN_LINES

    def enter(self, transport: asyncio.BaseTransport) -> str | None:
        """Take a place. Return its name for `leave`, or None where the address has none left."""
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if isinstance(peer, tuple) else ""
        if self._is_free(address):
            return UNCOUNTED
        place = network_of(address)
        count = self._open.get(place, 0)
        if count >= self._most:
            return None
        self._open[place] = count + 1
        return place

    def leave(self, place: str) -> None:
        """Give a place back."""
        if place:
            left = self._open[place] - 1
            if left:
                self._open[place] = left
            else:
                del self._open[place]

    def refuse(self, transport: asyncio.Transport) -> None:
        """Answer a connection without a place, whatever it asks for, and close it."""
        # No address in the log, for privacy; a rate-limited line, because a flood must not fill the disk.
        if time.monotonic() - self._said >= _SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            logger.warning(
                "an address has over %d connections: further ones are refused. If it is a gateway, name it in "
                "PHAROS_TRUSTED_PROXIES",
                self._most,
            )
        problem = Unavailable(
            f"This address has {self._most} connections already. Reuse or close some of them."
        )
        transport.write(raw_answer(problem))
        transport.close()

    def _is_free(self, address: str) -> bool:
        return not address or self._trusted.is_trusted(address) or is_loopback(address)


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

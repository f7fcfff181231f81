"""Counts the connections of each address, and refuses those over the limit."""

import asyncio
import ipaddress
import logging
import time
from collections.abc import Callable
from functools import lru_cache

from pipeline_contracts.client_address import network_of

logger = logging.getLogger(__name__)

UNCOUNTED = ""
"""The place of a connection that no limit applies to."""

_SECONDS_BETWEEN_LINES = 60.0


class Connections:
    """The places that each address has left.

    Gateways carry everybody's requests over few addresses, and one on this machine does, too: neither has a limit.
    """

    def __init__(self, most: int, trusts: Callable[[str], bool]) -> None:
        self.most = most
        self._trusts = trusts
        self._open: dict[str, int] = {}
        self._logged = -_SECONDS_BETWEEN_LINES

    def enter(self, transport: asyncio.BaseTransport) -> str | None:
        """Take a place. Return its name for `leave`, or None where the address has none left."""
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if isinstance(peer, tuple) else ""
        if not address or self._trusts(address.removeprefix("::ffff:")) or _is_loopback(address):
            return UNCOUNTED
        place = network_of(address)
        count = self._open.get(place, 0)
        if count >= self.most:
            self._log()
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

    def _log(self) -> None:
        # No address in the log, for privacy; a rate-limited line, because a flood must not fill the disk.
        if time.monotonic() - self._logged >= _SECONDS_BETWEEN_LINES:
            self._logged = time.monotonic()
            logger.warning(
                "an address has over %d connections to applications: further ones are refused. If it is a gateway, "
                "name it in PHAROS_TRUSTED_PROXIES",
                self.most,
            )


@lru_cache(4096)
def _is_loopback(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return (getattr(parsed, "ipv4_mapped", None) or parsed).is_loopback

"""Finds the client's address of a request that came through proxies, and the network for which limits count it."""

import ipaddress
from collections.abc import Sequence
from functools import lru_cache

from pipeline_contracts.settings import PREFIX, BadSettings

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# A real chain of proxies is short; a longer header is forged.
_MAX_HOPS = 32


def parse_networks(text: str | None) -> tuple[Network, ...]:
    """Parse a list like `10.0.0.0/8, ::1`. Raises `ValueError` that names the first invalid entry."""
    networks = []
    for part in (text or "").split(","):
        if entry := part.strip():
            try:
                networks.append(ipaddress.ip_network(entry, strict=False))
            except ValueError:
                raise ValueError(f"{entry!r} is neither an address nor a network") from None
    return tuple(networks)


class ClientAddresses:
    """Finds clients behind trusted proxies: the last address in `X-Forwarded-For` that is not a trusted proxy."""

    def __init__(self, trusted: Sequence[Network]) -> None:
        self._trusted = tuple(trusted)
        self._is_trusted = lru_cache(4096)(self._is_in_trusted_network)

    def is_trusted(self, peer: str | None) -> bool:
        """Return True if the peer is a trusted proxy, whose headers about the client are used."""
        return peer is not None and bool(self._trusted) and self._is_trusted(peer)

    def find(self, peer: str | None, forwarded_for: str | None) -> str:
        """Return the client's address. The header of an untrusted peer is ignored."""
        return _unmap_ipv4(self._last_untrusted(peer, forwarded_for))

    def _last_untrusted(self, peer: str | None, forwarded_for: str | None) -> str:
        if forwarded_for is None or not self.is_trusted(peer):
            return peer or ""
        hops = forwarded_for.split(",")[-_MAX_HOPS:]
        address = peer or ""
        for hop in reversed(hops):
            hop_address = _without_port(hop.strip())
            if not _is_address(hop_address):
                break
            address = hop_address
            if not self._is_trusted(hop_address):
                break
        return address

    def _is_in_trusted_network(self, address: str) -> bool:
        parsed = _parse(address)
        if parsed is None:
            return False
        mapped = getattr(parsed, "ipv4_mapped", None)
        return any((mapped or parsed) in network for network in self._trusted)


def parse_trusted_proxies(text: str | None) -> ClientAddresses:
    """Parse `PHAROS_TRUSTED_PROXIES`. Raises `BadSettings`."""
    try:
        return ClientAddresses(parse_networks(text))
    except ValueError as error:
        raise BadSettings(f"{PREFIX}TRUSTED_PROXIES: {error}") from error


@lru_cache(4096)
def network_of(address: str) -> str:
    """Return the network that limits count as one caller: an IPv4 address itself, or the /64 of an IPv6 address, of
    which one caller may use any address."""
    parsed = _parse(address.partition("%")[0])
    if parsed is None or isinstance(parsed, ipaddress.IPv4Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


@lru_cache(4096)
def wider_network_of(network: str) -> str:
    """Return the wider network that one caller often owns whole, for limits: the /48 of IPv6, the /24 of IPv4.

    `network` comes from `network_of`. Text that is not an address is returned unchanged."""
    parsed = _parse(network.partition("/")[0])
    if parsed is None:
        return network
    return str(ipaddress.ip_network((parsed, 24 if parsed.version == 4 else 48), strict=False))


@lru_cache(4096)
def is_loopback(address: str) -> bool:
    """True for an address of this machine."""
    parsed = _parse(address.partition("%")[0])
    return parsed is not None and (getattr(parsed, "ipv4_mapped", None) or parsed).is_loopback


def _unmap_ipv4(address: str) -> str:
    """Return `::ffff:192.0.2.1`, as a dual-stack socket writes an IPv4 address, as `192.0.2.1`."""
    return address[7:] if address.lower().startswith("::ffff:") and "." in address else address


def _without_port(hop: str) -> str:
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


def _is_address(text: str) -> bool:
    return _parse(text) is not None


# Parsing dominates the cost of these checks, and each request checks its client's address several times.
@lru_cache(4096)
def _parse(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None

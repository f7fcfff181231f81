"""Which address a request comes from, when proxies stand before the edge."""

import ipaddress
from collections.abc import Sequence
from functools import lru_cache

from pipeline_contracts.settings import PREFIX, BadSettings

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# A chain of proxies is short; what is longer was made up.
_MOST_HOPS = 32


def read_networks(text: str | None) -> tuple[Network, ...]:
    """`10.0.0.0/8, ::1` as networks. Raises `ValueError` that names the bad one."""
    networks = []
    for part in (text or "").split(","):
        if wanted := part.strip():
            try:
                networks.append(ipaddress.ip_network(wanted, strict=False))
            except ValueError:
                raise ValueError(f"{wanted!r} is neither an address nor a network") from None
    return tuple(networks)


class ClientAddresses:
    """Tells the client from trusted proxies: the last address in `X-Forwarded-For` that is none of them."""

    def __init__(self, trusted: Sequence[Network]) -> None:
        self._trusted = tuple(trusted)
        self._is_trusted = lru_cache(4096)(self._look_up)

    def is_trusted(self, peer: str | None) -> bool:
        """Whether the peer is a trusted proxy: what it says of the client is believed."""
        return peer is not None and bool(self._trusted) and self._is_trusted(peer)

    def find(self, peer: str | None, forwarded_for: str | None) -> str:
        """The client's address. Nothing is believed of a peer that is not trusted."""
        return _plain(self._last_untrusted(peer, forwarded_for))

    def _last_untrusted(self, peer: str | None, forwarded_for: str | None) -> str:
        if forwarded_for is None or not self.is_trusted(peer):
            return peer or ""
        hops = forwarded_for.split(",")[-_MOST_HOPS:]
        address = peer or ""
        for hop in reversed(hops):
            given = _without_port(hop.strip())
            if not _is_address(given):
                break
            address = given
            if not self._is_trusted(given):
                break
        return address

    def _look_up(self, address: str) -> bool:
        parsed = _parse(address)
        if parsed is None:
            return False
        mapped = getattr(parsed, "ipv4_mapped", None)
        return any((mapped or parsed) in network for network in self._trusted)


def read_trusted(text: str | None) -> ClientAddresses:
    """Those of `PHAROS_TRUSTED_PROXIES`. Raises `BadSettings`."""
    try:
        return ClientAddresses(read_networks(text))
    except ValueError as error:
        raise BadSettings(f"{PREFIX}TRUSTED_PROXIES: {error}") from error


@lru_cache(4096)
def network_of(address: str) -> str:
    """Whose address this is, for limits: an IPv4 address itself, of IPv6 the /64 network, in which one caller may have
    any address."""
    parsed = _parse(address.partition("%")[0])
    if parsed is None or isinstance(parsed, ipaddress.IPv4Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


@lru_cache(4096)
def site_of(network: str) -> str:
    """The group of networks that one caller often has whole, for limits: of IPv6 the /48, of IPv4 the /24.

    Takes what `network_of` returns; what is no address is a group of its own."""
    parsed = _parse(network.partition("/")[0])
    if parsed is None:
        return network
    return str(ipaddress.ip_network((parsed, 24 if parsed.version == 4 else 48), strict=False))


@lru_cache(4096)
def is_loopback(address: str) -> bool:
    """Whether the address is of this machine."""
    parsed = _parse(address.partition("%")[0])
    return parsed is not None and (getattr(parsed, "ipv4_mapped", None) or parsed).is_loopback


def _plain(address: str) -> str:
    """An IPv4 address as itself, also where a socket for both kinds writes it as one of IPv6."""
    return address[7:] if address.lower().startswith("::ffff:") and "." in address else address


def _without_port(hop: str) -> str:
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


def _is_address(text: str) -> bool:
    return _parse(text) is not None


# Parsing is most of what an address costs, and each request asks about its client's address several times.
@lru_cache(4096)
def _parse(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None

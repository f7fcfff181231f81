"""Which IP addresses a channel may connect to.

Members of an account choose where messages go, so an address inside the operator's network would let them reach what
only the operator's machines may reach (server-side request forgery, SSRF).
"""

import ipaddress
from typing import Literal

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

Refusal = Literal["private", "never"]
"""`private`: the operator may allow it. `never`: no setting does."""

_PRIVATE = tuple(
    ipaddress.ip_network(network)
    for network in (
        "127.0.0.0/8",
        "::1/128",
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        # Shared addresses of carriers; also Tailscale's.
        "100.64.0.0/10",
        "fc00::/7",
    )
)
_METADATA = tuple(
    ipaddress.ip_network(network)
    for network in (
        # Link-local: the metadata services of AWS, Google, Azure and others hand out credentials at 169.254.169.254.
        "169.254.0.0/16",
        "fe80::/10",
        # The same of AWS over IPv6, of Alibaba, and Azure's host agent behind an address that looks public.
        "fd00:ec2::254/128",
        "100.100.100.200/32",
        "168.63.129.16/32",
    )
)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
_TUNNELS_AND_EXAMPLES = tuple(
    ipaddress.IPv6Network(network)
    for network in (
        # Teredo and 6to4 lead to an IPv4 address inside of them. Both are retired, so no receiver has one.
        "2001::/32",
        "2002::/16",
        # Addresses of documentation; Python 3.11 takes the second one for public.
        "2001:db8::/32",
        "3fff::/20",
    )
)


def find_refusal(address: IPAddress) -> Refusal | None:
    """Return whether an address is refused, and if the operator can allow it; None: it is a public one.

    An IPv4 address inside an IPv6 one (mapped, or NAT64 of RFC 6052) decides for the whole.
    """
    if isinstance(address, ipaddress.IPv6Address):
        if address in _MAPPED or address in _NAT64:
            return find_refusal(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        # `fe80::1%eth0` is in no network as long as it has its scope.
        address = ipaddress.IPv6Address(int(address))
    if any(address in network for network in _METADATA):
        return "never"
    if any(address in network for network in _PRIVATE):
        return "private"
    if isinstance(address, ipaddress.IPv6Address) and (
        address not in _GLOBAL_UNICAST or any(address in network for network in _TUNNELS_AND_EXAMPLES)
    ):
        return "never"
    is_public = address.is_global and not (
        address.is_multicast or address.is_reserved or address.is_unspecified
    )
    return None if is_public else "never"


def is_allowed(address: IPAddress, *, allow_private: bool) -> bool:
    """Return True if a channel may connect to the address."""
    refusal = find_refusal(address)
    return refusal is None or (refusal == "private" and allow_private)

"""Decides which IP addresses a channel may connect to.

Members of an account choose the receivers of messages. If they name an address in the operator's network, they could
reach services that only the operator's machines may reach (server-side request forgery, SSRF).
"""

import ipaddress
from typing import Literal

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

Refusal = Literal["private", "never"]
"""Why an address is refused. `private`: the operator may allow it by a setting. `never`: no setting allows it."""

_PRIVATE = tuple(
    ipaddress.ip_network(network)
    for network in (
        "127.0.0.0/8",
        "::1/128",
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        # Addresses that carriers share among customers (carrier-grade NAT). Tailscale uses them too.
        "100.64.0.0/10",
        "fc00::/7",
    )
)
_METADATA = tuple(
    ipaddress.ip_network(network)
    for network in (
        # Link-local addresses. At 169.254.169.254, the metadata services of AWS, Google, Azure and others hand out
        # credentials.
        "169.254.0.0/16",
        "fe80::/10",
        # The metadata services of AWS over IPv6 and of Alibaba, and Azure's host agent, whose address looks public.
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
        # Addresses of Teredo and 6to4 contain an IPv4 address. Both protocols are retired, so no receiver uses them.
        "2001::/32",
        "2002::/16",
        # Addresses for documentation. Python 3.11 considers the second range public.
        "2001:db8::/32",
        "3fff::/20",
    )
)


def find_refusal(address: IPAddress) -> Refusal | None:
    """Return why an address is refused: `private` if the operator can allow it, `never` otherwise. Return None for a
    public address.

    If an IPv6 address contains an IPv4 address (mapped, or NAT64 as in RFC 6052), the IPv4 address decides.
    """
    if isinstance(address, ipaddress.IPv6Address):
        if address in _MAPPED or address in _NAT64:
            return find_refusal(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        # Python finds `fe80::1%eth0` in no network unless its scope is removed.
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

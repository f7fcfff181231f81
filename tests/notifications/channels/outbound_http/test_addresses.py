"""Addresses that channels may reach."""

import ipaddress

import pytest

from notifications.channels.outbound_http.addresses import Refusal, find_refusal, is_allowed

_ADDRESSES: dict[str, Refusal | None] = {
    # Public
    "93.184.215.14": None,
    "2606:2800:21f:cb07:6820:80da:af6b:8b2c": None,
    "::ffff:93.184.215.14": None,
    "64:ff9b::5db8:d70e": None,
    # Loopback, in each form
    "127.0.0.1": "private",
    "127.255.255.254": "private",
    "::1": "private",
    "::ffff:127.0.0.1": "private",
    "64:ff9b::7f00:1": "private",
    # Private
    "10.0.0.1": "private",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.168.1.1": "private",
    "100.64.0.1": "private",
    "fd12:3456::1": "private",
    "::ffff:192.168.1.1": "private",
    # Next to private ones
    "172.32.0.1": None,
    "100.128.0.1": None,
    # Metadata services and link-local
    "169.254.169.254": "never",
    "::ffff:169.254.169.254": "never",
    "64:ff9b::a9fe:a9fe": "never",
    "fe80::1": "never",
    "fe80::1%eth0": "never",
    "fd00:ec2::254": "never",
    "100.100.100.200": "never",
    "168.63.129.16": "never",
    # This host, broadcast, multicast, reserved, documentation, benchmarks
    "0.0.0.0": "never",
    "0.0.0.1": "never",
    "::": "never",
    "255.255.255.255": "never",
    "224.0.0.1": "never",
    "239.255.255.250": "never",
    "ff02::1": "never",
    "240.0.0.1": "never",
    "192.0.2.1": "never",
    "192.0.0.1": "never",
    "198.18.0.1": "never",
    "203.0.113.1": "never",
    "2001:db8::1": "never",
    "3fff::1": "never",
    # IPv4 inside IPv6 that no receiver uses: compatible, translated, NAT64 for local use, 6to4, Teredo, site-local
    "::127.0.0.1": "never",
    "::93.184.215.14": "never",
    "::ffff:0:7f00:1": "never",
    "64:ff9b:1::7f00:1": "never",
    "64:ff9b:1::5db8:d70e": "never",
    "2002:7f00:1::1": "never",
    "2002:5db8:d70e::1": "never",
    "2001:0:53aa:64c:0:fbff:80ff:fffe": "never",
    "fec0::1": "never",
}


@pytest.mark.parametrize("text", _ADDRESSES)
def test_address_is_refused_by_its_kind(text: str) -> None:
    address, refusal = ipaddress.ip_address(text), _ADDRESSES[text]
    assert find_refusal(address) == refusal
    assert is_allowed(address, allow_private=False) == (refusal is None)
    assert is_allowed(address, allow_private=True) == (refusal != "never")

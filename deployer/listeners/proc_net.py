"""Looks listeners up in /proc/net/tcp and tcp6, for machines whose kernel or sandbox has no sock_diag.

One lookup reads all sockets of the machine, which takes milliseconds where there are many. There are no cookies here:
the inode stands for the socket.
"""

import socket
import sys
from collections.abc import Iterator
from itertools import islice

from deployer.listeners.interface import LOOPBACK, Listener

_FILES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTEN = "0A"
# The order in which the kernel prefers listeners for a connection to 127.0.0.1.
_PREFERENCE = (LOOPBACK, f"::ffff:{LOOPBACK}", "0.0.0.0", "::")


class ProcNet:
    """A `ListenerSource`."""

    def find(self, port: int) -> Listener | None:
        """See `ListenerSource`. A listener on :: counts although it may take IPv6 alone: then nobody else listens on
        IPv4, and no connection gets this far."""
        suitable = [each for each in self.find_all(port) if each.address in _PREFERENCE]
        return min(suitable, key=lambda each: _PREFERENCE.index(each.address), default=None)

    def find_all(self, port: int = 0, limit: int | None = None) -> list[Listener]:
        """See `ListenerSource`."""
        return list(
            islice((each for name in _FILES for each in _read(name) if port in (0, each.port)), limit)
        )

    def close(self) -> None:
        """See `ListenerSource`."""


def _read(name: str) -> Iterator[Listener]:
    """See proc_net(5): address and port in hexadecimal, state, …, user, timeout, inode."""
    try:
        with open(name, encoding="ascii") as file:
            lines = file.readlines()[1:]
    except FileNotFoundError:
        # A kernel without IPv6.
        return
    for line in lines:
        fields = line.split()
        if fields[3] == _LISTEN:
            address, _, port = fields[1].partition(":")
            inode = int(fields[9])
            yield Listener(int(port, 16), _address(address), inode, int(fields[7]), inode)


def _address(text: str) -> str:
    """The kernel prints each 32-bit word in the machine's byte order."""
    words = [bytes.fromhex(text[start : start + 8]) for start in range(0, len(text), 8)]
    packed = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)

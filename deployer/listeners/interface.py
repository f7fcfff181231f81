"""Listening sockets of this machine, as every source reports them."""

from typing import NamedTuple, Protocol

LOOPBACK = "127.0.0.1"


class Listener(NamedTuple):
    """A TCP socket that listens."""

    port: int
    address: str
    """`127.0.0.1`, `0.0.0.0`, `::`, …"""
    cookie: int
    """Names the socket: no other socket has the same number while this one exists."""
    uid: int
    """The user who created the socket."""
    inode: int
    """As in the links of `/proc/PID/fd`."""


class ListenerSource(Protocol):
    """Reports listeners. Blocks for microseconds; each method raises OSError if the kernel refuses."""

    def find(self, port: int) -> Listener | None:
        """Return the listener that would take a connection to 127.0.0.1:port now."""

    def find_all(self, port: int = 0, limit: int | None = None) -> list[Listener]:
        """Return the listeners of one port, or of all ports (0), IPv4 and IPv6; no more than `limit`."""

    def close(self) -> None:
        """Close what the source has open."""

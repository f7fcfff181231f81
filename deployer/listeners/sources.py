"""Looks up listening TCP sockets: with sock_diag(7), or in /proc/net where the kernel or a sandbox has no sock_diag."""

import errno
import logging
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple, Protocol

logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"


class Listener(NamedTuple):
    """A TCP socket that listens."""

    port: int
    address: str
    """The address: `127.0.0.1`, `0.0.0.0`, `::`, …"""
    cookie: int
    """Identifies the socket as long as it exists."""
    uid: int
    """The ID of the user who created the socket."""
    inode: int
    """The inode of the socket, as in the links of `/proc/PID/fd`."""


class ListenerSource(Protocol):
    """Reports listeners. Blocks for microseconds; each method raises OSError if the kernel refuses."""

    def find(self, port: int) -> Listener | None:
        """Return the listener that a connection to 127.0.0.1:`port` would reach now."""

    def find_all(self, port: int = 0, limit: int | None = None) -> list[Listener]:
        """Return the IPv4 and IPv6 listeners of one port, or of all ports (0). Returns at most `limit` listeners."""

    def close(self) -> None:
        """Close the source's socket, if any."""


def find_source() -> ListenerSource | None:
    """Return a source that works on this machine: the first one that finds a test listener of Pharos."""
    sources: tuple[Callable[[], ListenerSource], ...] = (SocketDiagnostics, ProcNet)
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        probe.listen()
        port, inode = probe.getsockname()[1], os.fstat(probe.fileno()).st_ino
        for make in sources:
            try:
                source = make()
                found = source.find(port)
            except (OSError, ValueError, IndexError) as error:
                logger.debug("%s cannot be used: %s", make.__name__, error)
                continue
            if found is not None and found.inode == inode and found.uid == os.geteuid():
                return source
            source.close()
    logger.warning(
        "cannot find out which process owns a listening port: an application may answer for one that has crashed"
    )
    return None


# linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h, net/tcp_states.h.
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST, _DUMP = 0x001, 0x300
_ERROR, _DONE = 2, 3
_LISTEN = 1 << 10
_NO_COOKIE = 0xFFFFFFFF

_HEADER = struct.Struct("=IHHII")
_REQUEST_BODY = struct.Struct("=BBBxI")
_PORTS = struct.Struct("!HH")
_INTERFACE_AND_COOKIE = struct.Struct("=III")
_USER_AND_INODE = struct.Struct("=II")
# Positions in a message: struct nlmsghdr, then struct inet_diag_msg.
_FAMILY_AT, _SOCKET_AT, _USER_AT = 16, 20, 80
_RECEIVE_BYTES = 64 * 1024
_TIMEOUT_SECONDS = 0.2


class SocketDiagnostics:
    """A `ListenerSource` over sock_diag(7), the kernel interface of `ss`. Not thread-safe.

    One exact lookup takes about 5 µs. The kernel applies the same rules as for an incoming connection: it prefers a
    listener on 127.0.0.1 to one on 0.0.0.0, and that to one on :: that takes IPv4 as well.
    """

    def __init__(self) -> None:
        """Open a socket to the kernel. Raises OSError if the kernel has no sock_diag."""
        self._socket = _open_netlink()
        self._loopback = socket.if_nametoindex("lo")
        self._sequence = 0

    def find(self, port: int) -> Listener | None:
        """See `ListenerSource`."""
        # Without the port of a peer, the kernel finds the listener and not one of its connections.
        addresses = _PORTS.pack(port, 0) + socket.inet_aton(LOOPBACK) + bytes(28)
        self._send_request(socket.AF_INET, addresses, self._loopback, _REQUEST)
        try:
            return next(self._receive(is_dump=False), None)
        except FileNotFoundError:
            return None

    def find_all(self, port: int = 0, limit: int | None = None) -> list[Listener]:
        """See `ListenerSource`."""
        found: list[Listener] = []
        for family in (socket.AF_INET, socket.AF_INET6):
            self._send_request(family, _PORTS.pack(port, 0) + bytes(32), 0, _REQUEST | _DUMP)
            for listener in self._receive(is_dump=True):
                if len(found) == limit:
                    self._abandon()
                    return found
                found.append(listener)
        return found

    def close(self) -> None:
        """See `ListenerSource`."""
        self._socket.close()

    def _abandon(self) -> None:
        """Replace the socket: the kernel starts no further dump on it before the current one is read."""
        opened = _open_netlink()
        self._socket.close()
        self._socket = opened

    def _send_request(self, family: int, addresses: bytes, interface: int, flags: int) -> None:
        self._sequence = (self._sequence + 1) & 0x7FFFFFFF
        body = (
            _REQUEST_BODY.pack(family, socket.IPPROTO_TCP, 0, _LISTEN)
            + addresses
            + _INTERFACE_AND_COOKIE.pack(interface, _NO_COOKIE, _NO_COOKIE)
        )
        head = _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, flags, self._sequence, 0)
        self._socket.send(head + body)

    def _receive(self, *, is_dump: bool) -> Iterator[Listener]:
        """Yield the listeners of the reply: from one message, or from all messages up to the end of a dump. Skips
        replies to an earlier request that timed out."""
        while True:
            data = self._socket.recv(_RECEIVE_BYTES)
            while data:
                length, kind, _, sequence, _ = _HEADER.unpack_from(data)
                message, data = data[:length], data[(length + 3) & ~3 :]
                if sequence != self._sequence:
                    continue
                if kind == _ERROR:
                    _raise_error(message)
                if kind == _DONE:
                    return
                if kind == _SOCK_DIAG_BY_FAMILY:
                    yield _decode_listener(message)
                if not is_dump:
                    return


def _open_netlink() -> socket.socket:
    opened = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG)
    # The kernel sends its reply within `send`. The timeout is for a reply that the kernel has no memory for.
    opened.settimeout(_TIMEOUT_SECONDS)
    return opened


def _raise_error(message: bytes) -> None:
    number = -struct.unpack_from("=i", message, _HEADER.size)[0]
    raise OSError(number or errno.EPROTO, os.strerror(number or errno.EPROTO))


def _decode_listener(message: bytes) -> Listener:
    port, _ = _PORTS.unpack_from(message, _SOCKET_AT)
    is_four = message[_FAMILY_AT] == socket.AF_INET
    packed = message[_SOCKET_AT + 4 : _SOCKET_AT + (8 if is_four else 20)]
    _, low, high = _INTERFACE_AND_COOKIE.unpack_from(message, _SOCKET_AT + 36)
    uid, inode = _USER_AND_INODE.unpack_from(message, _USER_AT)
    address = socket.inet_ntop(socket.AF_INET if is_four else socket.AF_INET6, packed)
    return Listener(port, address, high << 32 | low, uid, inode)


_PROC_FILES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTEN_STATE = "0A"
# The order in which the kernel prefers listeners for a connection to 127.0.0.1.
_PREFERENCE = (LOOPBACK, f"::ffff:{LOOPBACK}", "0.0.0.0", "::")


class ProcNet:
    """A `ListenerSource` over /proc/net/tcp and tcp6.

    Each lookup reads all sockets of the machine, which takes milliseconds if there are many. /proc has no cookies: the
    inode takes their place.
    """

    def find(self, port: int) -> Listener | None:
        """See `ListenerSource`. Also counts a listener on :: that accepts only IPv6: no IPv4 connection succeeds
        then."""
        suitable = [each for each in self.find_all(port) if each.address in _PREFERENCE]
        return min(suitable, key=lambda each: _PREFERENCE.index(each.address), default=None)

    def find_all(self, port: int = 0, limit: int | None = None) -> list[Listener]:
        """See `ListenerSource`."""
        return list(
            islice(
                (each for name in _PROC_FILES for each in _read_proc_net(name) if port in (0, each.port)),
                limit,
            )
        )

    def close(self) -> None:
        """See `ListenerSource`."""


def _read_proc_net(name: str) -> Iterator[Listener]:
    """Yield the listeners in the file: address and port in hexadecimal, state, …, user, timeout, inode
    (proc_net(5))."""
    try:
        with open(name, encoding="ascii") as file:
            lines = file.readlines()[1:]
    except FileNotFoundError:
        # The kernel has no IPv6.
        return
    for line in lines:
        fields = line.split()
        if fields[3] == _LISTEN_STATE:
            address, _, port = fields[1].partition(":")
            inode = int(fields[9])
            yield Listener(int(port, 16), _decode_address(address), inode, int(fields[7]), inode)


def _decode_address(text: str) -> str:
    """Decode an address that the kernel prints as 32-bit words in the machine's byte order."""
    words = [bytes.fromhex(text[start : start + 8]) for start in range(0, len(text), 8)]
    packed = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)

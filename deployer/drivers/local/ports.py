"""Ports for processes: below those that the system gives to whoever asks for any."""

import errno
import secrets
import socket
from collections import deque
from collections.abc import Set

_RANGE = range(20_000, 32_000)
_REMEMBERED = 4000


class NoPort(OSError):
    """All are taken."""

    def __init__(self) -> None:
        super().__init__(errno.EADDRINUSE, f"no port from {_RANGE.start} to {_RANGE.stop - 1} is free")


class Ports:
    """Gives each start of a process a port of its own. The last few thousand are not given again: somebody may still
    send requests to their former owners, or wait there for the next one."""

    def __init__(self) -> None:
        self._given: deque[int] = deque(maxlen=_REMEMBERED)

    def avoid(self, port: int) -> None:
        """Do not give this port, which an earlier process of the deployer gave."""
        self._given.append(port)

    def give(self, taken: Set[int]) -> int:
        """Return a port that no socket is bound to and that is not among `taken`. Raises `NoPort`."""
        first = secrets.randbelow(len(_RANGE))
        avoided = taken | set(self._given)
        for number in range(len(_RANGE)):
            port = _RANGE[(first + number) % len(_RANGE)]
            if port not in avoided and _is_free(port):
                self._given.append(port)
                return port
        raise NoPort


def _is_free(port: int) -> bool:
    """Whether no socket is bound to it, listening or not. Without SO_REUSEADDR: a program that has bound the port with
    that option, and listens later, is found too."""
    return not _is_taken(socket.AF_INET, ("0.0.0.0", port)) and not (
        socket.has_dualstack_ipv6() and _is_taken(socket.AF_INET6, ("::", port))
    )


def _is_taken(family: socket.AddressFamily, address: tuple[str, int]) -> bool:
    with socket.socket(family) as probe:
        try:
            probe.bind(address)
        except OSError as error:
            return error.errno in (errno.EADDRINUSE, errno.EACCES)
        return False

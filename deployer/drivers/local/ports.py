"""Chooses ports for processes, below the ephemeral ports of the system."""

import errno
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable, Set

_RANGE = range(20_000, 32_000)
_REMEMBERED = 4000
# Each attempt binds two sockets, which blocks the event loop for about 20 µs.
_TRIES = 200
_REUSE_TRIES = 100
_SCAN_SECONDS = 3.0
_random = secrets.SystemRandom()


class NoPort(OSError):
    """No port is free."""

    def __init__(self) -> None:
        super().__init__(errno.EADDRINUSE, f"no port from {_RANGE.start} to {_RANGE.stop - 1} is free")


class Ports:
    """Gives each start of a process a port of its own. The last few thousand ports are not given again while others
    are free: clients may still send requests to the former process, or another program may be about to use the
    port."""

    def __init__(self) -> None:
        self._given: deque[int] = deque(maxlen=_REMEMBERED)
        self._scan: _Scan | None = None

    def avoid(self, port: int) -> None:
        """Never give this port: a former process of the deployer has given it."""
        self._given.append(port)

    def give(self, taken: Set[int]) -> int:
        """Return a port that no socket is bound to and that is not among `taken`. Raises `NoPort`.

        Tries a few hundred ports at most. If nearly all are bound, a thread scans all of them for the next call.
        """
        avoided = taken | set(self._given)
        port = _find_free(_random.sample(_RANGE, min(_TRIES, len(_RANGE))), avoided)
        if port is None:
            port = _find_free(self._scanned(avoided), avoided)
        if port is None:
            reusable = list(set(self._given) - taken)
            port = _find_free(_random.sample(reusable, min(_REUSE_TRIES, len(reusable))), taken)
        if port is None:
            raise NoPort
        if self._scan is not None:
            self._scan.skip(port)
        self._given.append(port)
        return port

    def _scanned(self, avoided: Set[int]) -> list[int]:
        """Return the ports that the last scan has found so far. Starts another scan if the last one is some seconds
        old."""
        found = [] if self._scan is None else self._scan.found[-_TRIES:]
        if self._scan is None or self._scan.is_outdated():
            self._scan = _Scan(avoided)
        return found


class _Scan:
    """Looks for free ports in a thread of its own."""

    def __init__(self, avoided: Set[int]) -> None:
        self.found: list[int] = []
        self._avoided = set(avoided)
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="ports", daemon=True)
        self._thread.start()

    def skip(self, port: int) -> None:
        """Do not probe this port any more: an application is about to bind the port, and would fail."""
        self._avoided.add(port)

    def is_outdated(self) -> bool:
        """Return True if the scan has ended, and its result is so old that another scan may begin."""
        return not self._thread.is_alive() and time.monotonic() - self._began >= _SCAN_SECONDS

    def _run(self) -> None:
        for port in _random.sample(_RANGE, len(_RANGE)):
            if port not in self._avoided and _is_free(port):
                self.found.append(port)


def _find_free(ports: Iterable[int], avoided: Set[int]) -> int | None:
    return next((port for port in ports if port not in avoided and _is_free(port)), None)


def _is_free(port: int) -> bool:
    """Return True if no socket is bound to the port, listening or not. The probe does not set SO_REUSEADDR, so it
    also finds a program that has bound the port with that option and will listen later."""
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

"""Ports for processes: below those that the system gives to whoever asks for any."""

import random
import socket

_RANGE = range(20_000, 32_000)


class NoPort(Exception):
    """All are taken."""


def free_port(taken: set[int]) -> int:
    """One that nobody listens on, and that is not among `taken`. Raises `NoPort`.

    From a random place on: whoever has just given one up may still have callers.
    """
    first = random.randrange(len(_RANGE))
    for number in range(len(_RANGE)):
        port = _RANGE[(first + number) % len(_RANGE)]
        if port not in taken and _is_free(port):
            return port
    raise NoPort(f"No port from {_RANGE.start} to {_RANGE.stop - 1} is free.")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # A port whose last connections are only just ending is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
        return True

"""Shared by the modules that start real engines: free ports, and skipping of tests whose engine is missing."""

import contextlib
import os
import random
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")

# Hypothesis seeds the default generator: two processes of one run would draw the same ports at the same time.
_RANDOM = random.SystemRandom()
# Each pytest-xdist worker (`gw0`, `gw1`, …) draws from a separate range. All ranges are below the ports that deployers
# give to applications, which run at the same time.
_SHARE = 10_000 // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
_FIRST = 10_000 + _SHARE * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_PORTS = range(_FIRST, _FIRST + _SHARE)
_drawn: set[int] = set()
# A platform on port N also takes N + 90 for applications and N + 100 for metrics.
_RELATED_PORTS = (0, -90, 90, -100, 100)


class EngineMissing(Exception):
    """The engine is not installed; the message says how to install it."""


@contextlib.contextmanager
def skip_if_missing() -> Iterator[None]:
    """Skip the test if the block raises `EngineMissing`."""
    try:
        yield
    except EngineMissing as error:
        pytest.skip(str(error))


@contextlib.contextmanager
def or_skip(engine: AbstractContextManager[T]) -> Iterator[T]:
    """Enter the context manager of an engine; skip the test if the engine is not installed."""
    with contextlib.ExitStack() as stack:
        with skip_if_missing():
            running = stack.enter_context(engine)
        yield running


def free_port() -> int:
    """Return a loopback port that nothing listens on and that this process has not returned before.

    It is below the system's ports for outgoing connections, which could take it while an engine restarts.
    """
    while True:
        port = _RANDOM.choice(_PORTS)
        if any(port + distance in _drawn for distance in _RELATED_PORTS):
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            _drawn.add(port)
            return port


_PATH = Path(__file__).parents[2] / ".engines" / "countries.mmdb"


def country_database() -> str:
    """Return the path of the database of countries by address, which npm installs. Raises `EngineMissing`."""
    if not _PATH.exists():
        raise EngineMissing("There is no database of countries; `make country-database` installs it.")
    return str(_PATH)

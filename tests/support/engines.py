"""What the starters of real engines share."""

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

# Hypothesis seeds the usual generator: two processes of one run would draw the same ports at the same time.
_DICE = random.SystemRandom()
# Each of the processes of a run draws among its own (pytest-xdist tells which it is, `gw0` and so on), and all of them
# below the ports that deployers give to what they run, which are at it beside these tests.
_SHARE = 10_000 // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
_FIRST = 10_000 + _SHARE * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_PORTS = range(_FIRST, _FIRST + _SHARE)
_drawn: set[int] = set()
# A platform takes its own port, that of applications 90 above it and that of metrics 100 above it.
_TAKEN_BESIDE = (0, -90, 90, -100, 100)


class EngineMissing(Exception):
    """The engine is not installed; the message says how to install it."""


@contextlib.contextmanager
def skip_if_missing() -> Iterator[None]:
    """What needs an engine: where it is not installed, the test is skipped."""
    try:
        yield
    except EngineMissing as error:
        pytest.skip(str(error))


@contextlib.contextmanager
def or_skip(engine: AbstractContextManager[T]) -> Iterator[T]:
    """The running engine; the tests that need it are skipped where it is not installed."""
    with contextlib.ExitStack() as stack:
        with skip_if_missing():
            running = stack.enter_context(engine)
        yield running


def free_port() -> int:
    """A port of the loopback address that nothing listens on now, and that is given once in a run of tests.

    Below those that the system gives to outgoing connections, too: one of these must not take it while an engine is
    being restarted.
    """
    while True:
        port = _DICE.choice(_PORTS)
        if any(port + distance in _drawn for distance in _TAKEN_BESIDE):
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            _drawn.add(port)
            return port


_PATH = Path(__file__).parents[2] / ".engines" / "countries.mmdb"


def country_database() -> str:
    """Its path. Raises `EngineMissing`."""
    if not _PATH.exists():
        raise EngineMissing("There is no database of countries; `make country-database` brings it.")
    return str(_PATH)

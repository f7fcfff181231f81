"""What the starters of real engines share."""

import contextlib
import random
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

import pytest

T = TypeVar("T")

# Hypothesis seeds the usual generator: two processes of one run would draw the same ports at the same time.
_DICE = random.SystemRandom()


class EngineMissing(Exception):
    """The engine is not installed; the message says how to install it."""


@contextlib.contextmanager
def skipping() -> Iterator[None]:
    """What needs an engine: where it is not installed, the test is skipped."""
    try:
        yield
    except EngineMissing as error:
        pytest.skip(str(error))


@contextlib.contextmanager
def or_skip(engine: AbstractContextManager[T]) -> Iterator[T]:
    """The running engine; the tests that need it are skipped where it is not installed."""
    with contextlib.ExitStack() as stack:
        with skipping():
            running = stack.enter_context(engine)
        yield running


def free_port() -> int:
    """A port of the loopback address that nothing listens on now.

    Below those that the system gives to outgoing connections: one of these must not take it while an engine is being
    restarted.
    """
    while True:
        port = _DICE.randrange(10_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port

"""Detection of peers that have stopped reading."""

import logging
from typing import Any

import pytest

from connection_bounds.backlogs import Backlogs


class Transport:
    """A transport without a socket, with a given number of unsent bytes."""

    def __init__(self, unsent: int) -> None:
        self.unsent = unsent
        self.is_silent = False

    def get_extra_info(self, name: str) -> Any:
        return None

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def mark_silent(self) -> None:
        self.is_silent = True


def test_peer_that_acknowledges_nothing_for_silent_seconds_is_silent() -> None:
    backlogs = Backlogs(10.0)
    slow, silent, done = Transport(100), Transport(100), Transport(100)
    watched = [backlogs.begin(transport, transport.mark_silent, 0.0) for transport in (slow, silent, done)]
    for now in (1.0, 6.0, 10.9):
        backlogs.sweep(now)
        slow.unsent -= 1
        assert not silent.is_silent
    backlogs.end(watched[2])
    backlogs.sweep(11.0)
    assert [transport.is_silent for transport in (slow, silent, done)] == [False, True, False]
    assert len(backlogs) == 2


def test_sweep_continues_after_a_connection_that_cannot_be_checked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Transport):
        def get_write_buffer_size(self) -> int:
            raise RuntimeError("closed")

    backlogs = Backlogs(10.0)
    broken, silent = Broken(1), Transport(1)
    for transport in (broken, silent):
        backlogs.begin(transport, transport.mark_silent, 0.0)
    with caplog.at_level(logging.ERROR):
        backlogs.sweep(1.0)
        backlogs.sweep(20.0)
    assert silent.is_silent and not broken.is_silent

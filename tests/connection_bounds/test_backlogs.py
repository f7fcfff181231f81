"""Detection of silent peers."""

import logging
from typing import Any

import pytest

from connection_bounds.backlogs import Backlogs


class Transport:
    """A transport without a socket, with a given number of unsent bytes."""

    def __init__(self, unsent: int) -> None:
        self.unsent = unsent
        self.is_given_up = False

    def get_extra_info(self, name: str) -> Any:
        return None

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def give_up(self) -> None:
        self.is_given_up = True


def test_a_peer_is_silent_once_it_has_taken_nothing_for_long_enough() -> None:
    backlogs = Backlogs(10.0)
    slow, silent, done = Transport(100), Transport(100), Transport(100)
    begun = [backlogs.begin(one, one.give_up, 0.0) for one in (slow, silent, done)]
    for now in (1.0, 6.0, 10.9):
        backlogs.sweep(now)
        slow.unsent -= 1
        assert not silent.is_given_up
    backlogs.end(begun[2])
    backlogs.sweep(11.0)
    assert [one.is_given_up for one in (slow, silent, done)] == [False, True, False]
    assert len(backlogs) == 2


def test_a_connection_that_cannot_be_checked_keeps_no_other_from_being_swept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Transport):
        def get_write_buffer_size(self) -> int:
            raise RuntimeError("closed")

    backlogs = Backlogs(10.0)
    broken, silent = Broken(1), Transport(1)
    for one in (broken, silent):
        backlogs.begin(one, one.give_up, 0.0)
    with caplog.at_level(logging.ERROR):
        backlogs.sweep(1.0)
        backlogs.sweep(20.0)
    assert silent.is_given_up and not broken.is_given_up

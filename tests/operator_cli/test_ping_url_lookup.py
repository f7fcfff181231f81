"""The lookup of a ping URL by `pharos run`: the job runs whatever happens to it."""

import threading
from typing import NoReturn

import pytest

from operator_cli.errors import CommandFailed
from operator_cli.monitors.run import _within


def test_a_lookup_that_fails_or_takes_long_is_a_message() -> None:
    never = threading.Event()

    def wait() -> tuple[str, None]:
        never.wait()
        return "1", None

    def fail(error: Exception) -> NoReturn:
        raise error

    assert _within(60, lambda: ("1", "http://host/ping/key")) == ("1", "http://host/ping/key")
    for find, text in [
        (wait, "not found within 0.01 s"),
        (lambda: fail(CommandFailed("nobody is logged in")), "nobody is logged in"),
        (lambda: fail(KeyError("urls")), "not found: KeyError"),
    ]:
        with pytest.raises(CommandFailed, match=text):
            _within(0.01 if find is wait else 60, find)
    never.set()

"""Descriptions of how processes ended."""

import pytest

from deployer.processes.exits import count_oom_kills, describe_exit, describe_unexpected_exit


@pytest.mark.parametrize(
    ("status", "oom_kills", "expected"),
    [
        (0, 0, "ended with status 0"),
        (3, 1, "ended with status 3"),
        (None, 1, "ended with an unknown status"),
        (-15, 1, "was ended by signal 15 (SIGTERM)"),
        (-40, 0, "was ended by signal 40"),
        (-9, 1, "ended with exit status 137 (out of memory)"),
        (137, 1, "ended with exit status 137 (out of memory)"),
        # Another process may have sent the signal.
        (-9, 0, "ended with exit status 137 (SIGKILL, perhaps out of memory)"),
        (137, 0, "ended with exit status 137 (SIGKILL, perhaps out of memory)"),
    ],
)
def test_description_of_an_unexpected_exit(status: int | None, oom_kills: int, expected: str) -> None:
    assert describe_unexpected_exit(status, oom_kills) == expected


def test_a_process_that_pharos_killed_is_not_described_as_out_of_memory() -> None:
    assert describe_exit(-9) == "was ended by signal 9 (SIGKILL)"


def test_oom_kills_are_counted() -> None:
    assert count_oom_kills() >= 0

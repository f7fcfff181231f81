"""When a request is sent again."""

import random

import pytest

from operator_cli.failure import CommandFailed
from operator_cli.sending.patience import Patience, parse_retry_after
from operator_cli.sending.report import Report


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def waits(patience: Patience, clock: Clock) -> float:
    return patience._until - clock.now


def make(give_up_after: float | None = None) -> tuple[Patience, Clock, list[str]]:
    clock = Clock()
    messages: list[str] = []
    report = Report(False, messages.append, clock)
    return Patience(report, give_up_after, clock, random.Random(1)), clock, messages


def test_it_waits_longer_each_time_up_to_a_limit() -> None:
    patience, clock, messages = make()
    seen = []
    for _ in range(12):
        patience.fail("away", None)
        seen.append(waits(patience, clock))
        clock.now += seen[-1]
    assert 0.1 <= seen[0] <= 0.25
    assert 15.0 <= seen[-1] <= 30.0
    assert max(seen) <= 30.0
    assert messages and messages[0].startswith("pharos: away; trying again in ")


def test_requests_that_fail_together_count_once() -> None:
    patience, clock, _ = make()
    for _ in range(4):
        patience.fail("away", None)
    assert waits(patience, clock) <= 0.25


def test_the_server_says_when_within_reason() -> None:
    patience, clock, _ = make()
    patience.fail("busy", 7.0)
    assert waits(patience, clock) == 7.0
    patience.fail("busy", 1e9)
    assert waits(patience, clock) == 300.0


def test_zero_seconds_are_no_reason_to_hurry() -> None:
    patience, clock, _ = make()
    patience.fail("busy", 0.0)
    assert waits(patience, clock) > 0


def test_success_starts_over() -> None:
    patience, clock, _ = make()
    for _ in range(8):
        patience.fail("away", None)
        clock.now += 60
    patience.succeed()
    patience.fail("away", None)
    assert waits(patience, clock) <= 0.25


def test_it_gives_up_when_told_so() -> None:
    patience, clock, _ = make(give_up_after=60)
    patience.fail("away", None)
    clock.now += 59
    patience.fail("away", None)
    patience.succeed()
    clock.now += 59
    patience.fail("away", None)
    clock.now += 60
    with pytest.raises(CommandFailed, match="Gave up after 60 s: away"):
        patience.fail("away", None)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("3", 3.0),
        (" 0 ", 0.0),
        ("Wed, 21 Oct 2015 07:28:30 GMT", 30.0),
        ("Wed, 21 Oct 2015 07:27:00 GMT", 0.0),
        ("soon", None),
        ("-1", None),
        ("nan", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_read(text: str | None, seconds: float | None) -> None:
    assert parse_retry_after(text, 1445412480.0) == seconds

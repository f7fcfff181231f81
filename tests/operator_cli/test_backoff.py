"""The waits between retries of `pharos send`."""

import random

import pytest

from operator_cli.errors import CommandFailed
from operator_cli.ingest.sending.backoff import Backoff, parse_retry_after
from operator_cli.ingest.sending.report import Report


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def waits(backoff: Backoff, clock: Clock) -> float:
    return backoff._until - clock.now


def make(give_up_after: float | None = None) -> tuple[Backoff, Clock, list[str]]:
    clock = Clock()
    messages: list[str] = []
    report = Report(False, messages.append, clock)
    return Backoff(report, give_up_after, clock, random.Random(1)), clock, messages


def test_waits_grow_up_to_a_limit() -> None:
    backoff, clock, messages = make()
    seen = []
    for _ in range(12):
        backoff.record_failure("away", None)
        seen.append(waits(backoff, clock))
        clock.now += seen[-1]
    assert 0.1 <= seen[0] <= 0.25
    assert 15.0 <= seen[-1] <= 30.0
    assert max(seen) <= 30.0
    assert messages and messages[0].startswith("pharos: away; trying again in ")


def test_concurrent_failures_count_once() -> None:
    backoff, clock, _ = make()
    for _ in range(4):
        backoff.record_failure("away", None)
    assert waits(backoff, clock) <= 0.25


def test_retry_after_is_honoured_up_to_a_limit() -> None:
    backoff, clock, _ = make()
    backoff.record_failure("busy", 7.0)
    assert waits(backoff, clock) == 7.0
    backoff.record_failure("busy", 1e9)
    assert waits(backoff, clock) == 300.0


def test_a_retry_after_of_zero_does_not_shorten_the_wait() -> None:
    backoff, clock, _ = make()
    backoff.record_failure("busy", 0.0)
    assert waits(backoff, clock) > 0


def test_a_success_resets_the_backoff() -> None:
    backoff, clock, _ = make()
    for _ in range(8):
        backoff.record_failure("away", None)
        clock.now += 60
    backoff.record_success()
    backoff.record_failure("away", None)
    assert waits(backoff, clock) <= 0.25


def test_retries_end_after_the_configured_time() -> None:
    backoff, clock, _ = make(give_up_after=60)
    backoff.record_failure("away", None)
    clock.now += 59
    backoff.record_failure("away", None)
    backoff.record_success()
    clock.now += 59
    backoff.record_failure("away", None)
    clock.now += 60
    with pytest.raises(CommandFailed, match="Gave up after 60 s: away"):
        backoff.record_failure("away", None)


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
def test_retry_after_is_parsed(text: str | None, seconds: float | None) -> None:
    assert parse_retry_after(text, 1445412480.0) == seconds

"""The times at which a message is sent again."""

from datetime import UTC, datetime, timedelta

import pytest

from notifications.delivery.retry_schedule import find_next_attempt

_NOW = datetime(2030, 1, 1, tzinfo=UTC)
_HOUR = 3600.0


@pytest.mark.parametrize(
    ("failures", "retry_after", "seconds"),
    [
        (1, None, 5.0),
        (2, None, 30.0),
        (3, None, 120.0),
        (4, None, 600.0),
        (5, None, 1800.0),
        (6, None, _HOUR),
        (70, None, _HOUR),
        # The receiver requests a longer pause, a shorter one, an impossible one.
        (1, 60.0, 60.0),
        (3, 60.0, 120.0),
        (1, 86_400.0, _HOUR),
        (1, -3.0, 5.0),
    ],
)
def test_pauses_grow_to_an_hour(failures: int, retry_after: float | None, seconds: float) -> None:
    at = find_next_attempt("msg_1", failures, _NOW, _NOW, retry_after)
    assert at is not None
    assert timedelta(seconds=seconds) <= at - _NOW <= timedelta(seconds=1.1 * seconds)


def test_messages_that_fail_together_do_not_return_together() -> None:
    times = {find_next_attempt(f"msg_{number}", 6, _NOW, _NOW) for number in range(100)}
    assert len(times) == 100
    assert find_next_attempt("msg_1", 6, _NOW, _NOW) == find_next_attempt("msg_1", 6, _NOW, _NOW)


def test_retries_end_after_three_days() -> None:
    failures, now = 0, _NOW
    while (at := find_next_attempt("msg_1", failures + 1, _NOW, now)) is not None:
        failures, now = failures + 1, at
    assert timedelta(days=3) - timedelta(hours=1.1) < now - _NOW <= timedelta(days=3)
    assert 65 <= failures <= 77

"""Durations as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_contracts.durations import BadDuration, format_duration, parse_duration

_READ = {
    "0s": 0,
    "1s": 1,
    "90s": 90,
    "30m": 1800,
    "2h": 7200,
    "14d": 1_209_600,
    "45": 45,
    "007m": 420,
    "0d": 0,
}


@pytest.mark.parametrize(("text", "seconds"), _READ.items())
def test_how_many_seconds_a_text_is(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "m", "1w", "-1h", "+1h", "1.5h", "1h30m", " 1h", "1h\n", "1 h", "1H", "٣m", "9" * 10, "9" * 5000],
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(BadDuration) as refused:
        parse_duration(text)
    assert str(refused.value) == "is no duration; write 90s, 30m, 2h or 1d"


_WRITTEN = {
    0: "0s",
    1: "1s",
    59: "59s",
    60: "1m",
    90: "90s",
    3600: "1h",
    5400: "90m",
    86_400: "1d",
    90_000: "25h",
}


@pytest.mark.parametrize(("seconds", "text"), _WRITTEN.items())
def test_the_largest_unit_that_divides_it(seconds: int, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(0, 999_999_999))
def test_what_is_written_is_read_as_the_same(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds

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
def test_parses_durations(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "m", "1w", "-1h", "+1h", "1.5h", "1h30m", " 1h", "1h\n", "1 h", "1H", "٣m", "9" * 10, "9" * 5000],
)
def test_refuses_invalid_durations(text: str) -> None:
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
def test_formats_in_the_largest_exact_unit(seconds: int, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(0, 999_999_999))
def test_formatted_durations_parse_to_the_same_seconds(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds

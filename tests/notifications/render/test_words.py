"""Numbers, times and names in words."""

import pytest

from notifications.message import Figure
from notifications.render.words import (
    to_line,
    write_duration,
    write_figure,
    write_span,
    write_time,
    write_value,
)


def test_text_of_people_becomes_one_harmless_line() -> None:
    cases = {
        "a\r\nBcc: b": "a Bcc: b",
        "  a \t b\u2028c ": "a b c",
        "x\x00\x07\x1b[31my": "x[31my",
        # Characters that change the direction of text, and invisible ones.
        "a\u202eb\u2066c\u200bd\ufeffe": "abcde",
        # Joiners are parts of letters and emoji.
        "\U0001f469\u200d\U0001f4bb": "\U0001f469\u200d\U0001f4bb",
        "\ud800x": "x",
        "": "",
    }
    for text, line in cases.items():
        assert to_line(text, 100) == line
    assert to_line("abcdef", 4) == "abc…"
    assert to_line("x" * 10_000_000, 10) == "x" * 9 + "…"


def test_durations_have_two_units() -> None:
    cases = {
        0.25: "250 ms",
        1: "1 s",
        59.6: "1 min",
        90: "1 min 30 s",
        7800: "2 h 10 min",
        3600: "1 h",
        3601: "1 h",
        93_600: "1 d 2 h",
        100_000_000: "1,157 d 9 h",
    }
    for seconds, text in cases.items():
        assert write_duration(seconds) == text


def test_values_have_their_unit() -> None:
    cases: dict[tuple[float, str], str] = {
        (7.243, "%"): "7.24%",
        (734, "s"): "12 min 14 s",
        (0, "s"): "0 s",
        (1834, "ms"): "1,834 ms",
        (12345, "jobs"): "12,345 jobs",
        (0.0523812, ""): "0.0524",
        (-3.5, "V"): "-3.5 V",
        (1e300, ""): "1e+300",
        (float("nan"), "%"): "no number%",
    }
    for (value, unit), text in cases.items():
        assert write_value(value, unit) == text
    assert write_figure(Figure(name="oldest job", value=734, unit="s", threshold=300)) == (
        "oldest job",
        "12 min 14 s (threshold 5 min)",
    )


def test_times_are_in_utc() -> None:
    assert write_time("2026-11-26T03:00:31.123Z") == "26 Nov 2026, 03:00 UTC"
    assert write_time("2026-11-26T04:00:31+01:00") == "26 Nov 2026, 03:00 UTC"
    assert write_time("yesterday\n") == "yesterday"
    assert write_span("2026-11-26T03:00:00Z", "2026-11-26T05:10:12Z") == "26 Nov 2026, 03:00 to 05:10 UTC"
    assert (
        write_span("2026-11-26T23:00:00Z", "2026-11-27T05:10:12Z")
        == "26 Nov 2026, 23:00 to 27 Nov 2026, 05:10 UTC"
    )


@pytest.mark.parametrize("limit", [1, 2, 80])
def test_line_is_within_its_limit(limit: int) -> None:
    for text in ("", "a", "a b c" * 100, "\u202e" * 500 + "end"):
        assert len(to_line(text, limit)) <= limit

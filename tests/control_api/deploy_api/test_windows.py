"""Deploy windows: their syntax, and when they are open."""

from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest

from control_domain.environments.windows import (
    DAYS,
    BadWindow,
    DeployWindow,
    dump_window,
    load_window,
    parse_window,
    read_window,
)

PARSED = [
    ("mon-thu 09:00-16:00 Europe/Oslo", ("mon", "tue", "wed", "thu"), "09:00", "16:00", "Europe/Oslo"),
    ("fri,sat 22:00-02:00", ("fri", "sat"), "22:00", "02:00", "UTC"),
    ("sun 00:00-00:00 UTC", ("sun",), "00:00", "00:00", "UTC"),
    ("mon-sun 00:00-23:59 Asia/Kathmandu", DAYS, "00:00", "23:59", "Asia/Kathmandu"),
    ("sat-mon 10:00-11:00", ("mon", "sat", "sun"), "10:00", "11:00", "UTC"),
    ("sun-mon 10:00-11:00", ("mon", "sun"), "10:00", "11:00", "UTC"),
    ("wed-tue 10:00-11:00", DAYS, "10:00", "11:00", "UTC"),
    ("tue-tue 10:00-11:00", ("tue",), "10:00", "11:00", "UTC"),
    ("fri,mon-tue,fri 10:00-11:00", ("mon", "tue", "fri"), "10:00", "11:00", "UTC"),
    ("Mon-THU 09:00-16:00 America/St_Johns", ("mon", "tue", "wed", "thu"), "09:00", "16:00", "America/St_Johns"),
    ("  mon\t09:00-16:00   UTC ", ("mon",), "09:00", "16:00", "UTC"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "days", "begin", "end", "zone"), PARSED, ids=lambda value: str(value))
def test_window_texts_are_parsed(text: str, days: tuple[str, ...], begin: str, end: str, zone: str) -> None:
    window = parse_window(text)
    assert window == DeployWindow(days, time.fromisoformat(begin), time.fromisoformat(end), zone)
    document = {"days": list(days), "from": begin, "to": end, "timezone": zone}
    assert window.to_document() == document
    assert read_window(document) == window
    assert load_window(dump_window(window)) == window
    # The written form is parsed again.
    assert parse_window(str(window)) == window


def test_missing_window_is_stored_as_null() -> None:
    assert dump_window(None) is None
    assert load_window(None) is None


NO_WINDOWS = [
    "", " ", "mon", "09:00-16:00", "mon 09:00", "mon 09:00-", "mon -16:00", "mon 09:00-12:00-16:00",
    "mon 9:00-16:00", "mon 09:00-24:00", "mon 25:00-26:00", "mon 09:60-16:00", "mon 09:00:00-16:00:00",
    "mon 0900-1600", "mon 09.00-16.00", "mon ٠٩:00-16:00", "monday 09:00-16:00", "mo 09:00-16:00",
    ",mon 09:00-16:00", "mon, 09:00-16:00", "mon-fry 09:00-16:00", "mon-tue-wed 09:00-16:00", "-mon 09:00-16:00",
    "mon- 09:00-16:00", "1 09:00-16:00", "mon 09:00-16:00 Oslo", "mon 09:00-16:00 Europe",
    "mon 09:00-16:00 ../../etc/passwd", "mon 09:00-16:00 /etc/localtime", "mon 09:00-16:00 UTC+1",
    "mon 09:00-16:00 Europe/Oslo extra", "mon 09:00-16:00 " + "x" * 5000, "mon 09:00-16:00 Europe/\0",
]  # fmt: skip


@pytest.mark.parametrize("text", NO_WINDOWS, ids=lambda text: text[:40])
def test_invalid_windows_are_refused(text: str) -> None:
    with pytest.raises(BadWindow):
        parse_window(text)


_WHOLE: dict[str, Any] = {"days": ["mon"], "from": "09:00", "to": "16:00", "timezone": "UTC"}


NO_MEMBERS: list[dict[str, Any]] = [
    {"days": None}, {"days": []}, {"days": "mon"}, {"days": ["Mon"]}, {"days": ["mon", None]},
    {"days": [["mon"]]}, {"days": [1]}, {"days": {"mon": True}}, {"from": None}, {"from": 9}, {"from": "9:00"},
    {"from": "24:00"}, {"to": ""}, {"to": "16:00\n"}, {"to": ["16:00"]}, {"timezone": None}, {"timezone": 1},
    {"timezone": ""}, {"timezone": "Mars/Base"}, {"timezone": ["UTC"]}, {"timezone": "\ud800"},
    {"timezone": "a\0b"},
]  # fmt: skip


@pytest.mark.parametrize("members", NO_MEMBERS, ids=ascii)
def test_invalid_windows_in_a_document_are_refused(members: dict[str, Any]) -> None:
    with pytest.raises(BadWindow):
        read_window({**_WHOLE, **members})


def test_zone_is_optional_in_a_document() -> None:
    document = {name: value for name, value in _WHOLE.items() if name != "timezone"}
    assert read_window(document).timezone == "UTC"


# 2026-11-16 is a Monday. Oslo is two hours ahead of UTC from 2026-03-29, when 02:00 becomes 03:00, to 2026-10-25, when
# 03:00 becomes 02:00.
OPEN = [
    ("mon-thu 09:00-16:00 Europe/Oslo", "2026-11-16T07:59:59.999999", False),
    ("mon-thu 09:00-16:00 Europe/Oslo", "2026-11-16T08:00:00", True),
    ("mon-thu 09:00-16:00 Europe/Oslo", "2026-11-16T14:59:59.999999", True),
    ("mon-thu 09:00-16:00 Europe/Oslo", "2026-11-16T15:00:00", False),
    ("mon-thu 09:00-16:00 Europe/Oslo", "2026-11-20T12:00:00", False),
    # In summer the window opens an hour earlier in UTC.
    ("mon-thu 09:00-16:00 Europe/Oslo", "2026-07-13T07:00:00", True),
    ("mon-thu 09:00-16:00 Europe/Oslo", "2026-07-13T14:00:00", False),
    # The day is that of the window's time zone.
    ("mon 00:00-06:00 Pacific/Auckland", "2026-11-15T11:00:00", True),
    ("mon 00:00-06:00 Pacific/Auckland", "2026-11-16T11:00:00", False),
    ("sun 20:00-23:00 America/Los_Angeles", "2026-11-16T05:00:00", True),
    ("mon 09:00-10:00 Asia/Kathmandu", "2026-11-16T03:14:59", False),
    ("mon 09:00-10:00 Asia/Kathmandu", "2026-11-16T03:15:00", True),
    # Windows over midnight: the days are those on which the window begins.
    ("fri 22:00-02:00", "2026-11-20T21:59:59", False),
    ("fri 22:00-02:00", "2026-11-20T22:00:00", True),
    ("fri 22:00-02:00", "2026-11-21T01:59:59", True),
    ("fri 22:00-02:00", "2026-11-21T02:00:00", False),
    ("fri 22:00-02:00", "2026-11-20T01:00:00", False),
    ("fri 22:00-02:00", "2026-11-21T22:00:00", False),
    ("sun 22:00-02:00", "2026-11-16T01:00:00", True),
    ("mon 22:00-02:00", "2026-11-16T01:00:00", False),
    # A whole day, from midnight or from another hour.
    ("mon 00:00-00:00", "2026-11-15T23:59:59", False),
    ("mon 00:00-00:00", "2026-11-16T00:00:00", True),
    ("mon 00:00-00:00", "2026-11-16T23:59:59.999999", True),
    ("mon 00:00-00:00", "2026-11-17T00:00:00", False),
    ("mon 09:00-09:00", "2026-11-16T08:59:59", False),
    ("mon 09:00-09:00", "2026-11-16T09:00:00", True),
    ("mon 09:00-09:00", "2026-11-17T08:59:59", True),
    ("mon 09:00-09:00", "2026-11-17T09:00:00", False),
    ("mon-sun 00:00-00:00 Europe/Oslo", "2026-03-29T01:00:00", True),
    # The hour that is skipped in spring: a window within it never opens, and a window across it is an hour shorter.
    ("sun 02:00-03:00 Europe/Oslo", "2026-03-29T00:59:59", False),
    ("sun 02:00-03:00 Europe/Oslo", "2026-03-29T01:00:00", False),
    ("sun 01:30-03:30 Europe/Oslo", "2026-03-29T00:59:59", True),
    ("sun 01:30-03:30 Europe/Oslo", "2026-03-29T01:29:59", True),
    ("sun 01:30-03:30 Europe/Oslo", "2026-03-29T01:30:00", False),
    # The hour that occurs twice in autumn is in the window both times.
    ("sun 02:00-03:00 Europe/Oslo", "2026-10-24T23:59:59", False),
    ("sun 02:00-03:00 Europe/Oslo", "2026-10-25T00:30:00", True),
    ("sun 02:00-03:00 Europe/Oslo", "2026-10-25T01:30:00", True),
    ("sun 02:00-03:00 Europe/Oslo", "2026-10-25T02:00:00", False),
    ("sat 22:00-02:30 Europe/Oslo", "2026-10-25T00:29:59", True),
    ("sat 22:00-02:30 Europe/Oslo", "2026-10-25T00:30:00", False),
    ("sat 22:00-02:30 Europe/Oslo", "2026-10-25T01:29:59", True),
    ("sat 22:00-02:30 Europe/Oslo", "2026-10-25T01:30:00", False),
    # Midnight itself is skipped.
    ("sun 23:00-01:30 America/Santiago", "2026-09-07T03:00:00", True),
    ("sat 23:00-01:30 America/Santiago", "2026-09-06T04:00:00", True),
    ("sat 23:00-01:30 America/Santiago", "2026-09-06T04:30:00", False),
]


@pytest.mark.parametrize(("text", "moment", "is_open"), OPEN)
def test_window_is_open_at_the_given_times(text: str, moment: str, is_open: bool) -> None:
    window, now = parse_window(text), datetime.fromisoformat(moment).replace(tzinfo=UTC)
    assert window.is_open(now) is is_open
    stored = load_window(dump_window(window))
    assert stored is not None
    assert stored.is_open(now) is is_open


@pytest.mark.parametrize(
    "text", ["mon-thu 09:00-16:00 Europe/Oslo", "fri 22:00-02:00", "sat-mon 12:00-12:00"]
)
def test_window_covers_its_share_of_a_week(text: str) -> None:
    window, monday = parse_window(text), datetime(2026, 11, 16, tzinfo=UTC)
    quarters = sum(window.is_open(monday + timedelta(minutes=15 * n)) for n in range(7 * 96))
    begin, end = window.begin.hour * 4, window.end.hour * 4
    assert quarters == len(window.days) * ((end - begin) % 96 or 96)

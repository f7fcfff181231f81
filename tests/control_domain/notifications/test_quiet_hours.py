"""The end of quiet hours: over midnight, on some days, and at clock changes."""

from datetime import UTC, datetime

import msgspec
import pytest

from control_domain.notifications.quiet_hours import (
    QuietHours,
    check_quiet_hours,
    describe_quiet_hours,
    read_quiet_hours,
    write_quiet_hours,
)
from pipeline_contracts.errors import InvalidInput

_NIGHT = {"from": "22:00", "to": "07:00", "timezone": "Europe/Berlin"}
_LUNCH = {"from": "12:00", "to": "13:00"}
_WEEKEND = {"from": "00:00", "to": "00:00", "days": ["saturday", "sunday"]}
_FRIDAY_NIGHT = {"from": "22:00", "to": "07:00", "days": ["friday"]}


def _read(document: dict[str, object]) -> QuietHours:
    return msgspec.convert(document, QuietHours)


# The end is the time from which messages are sent; 2026-11-26 is a Thursday.
@pytest.mark.parametrize(
    ("hours", "now", "end"),
    [
        (_NIGHT, "2026-11-26T20:59:59", None),
        (_NIGHT, "2026-11-26T21:00:00", "2026-11-27T06:00:00"),
        (_NIGHT, "2026-11-27T05:59:59", "2026-11-27T06:00:00"),
        (_NIGHT, "2026-11-27T06:00:00", None),
        # In summer Berlin is two hours ahead.
        (_NIGHT, "2026-07-01T20:00:00", "2026-07-02T05:00:00"),
        # The nights in which clocks change last 8 and 10 hours.
        (_NIGHT, "2026-03-28T21:00:00", "2026-03-29T05:00:00"),
        (_NIGHT, "2026-10-24T20:00:00", "2026-10-25T06:00:00"),
        (_LUNCH, "2026-11-26T12:30:00", "2026-11-26T13:00:00"),
        (_LUNCH, "2026-11-26T11:59:59", None),
        # Saturday and Sunday are one span.
        (_WEEKEND, "2026-11-28T10:00:00", "2026-11-30T00:00:00"),
        (_WEEKEND, "2026-11-29T23:59:59", "2026-11-30T00:00:00"),
        (_WEEKEND, "2026-11-30T00:00:00", None),
        (_FRIDAY_NIGHT, "2026-11-27T23:00:00", "2026-11-28T07:00:00"),
        (_FRIDAY_NIGHT, "2026-11-28T06:00:00", "2026-11-28T07:00:00"),
        (_FRIDAY_NIGHT, "2026-11-28T23:00:00", None),
        # 02:30 does not exist on this day in Berlin, and is the time an hour later by the new clock.
        (
            {"from": "01:00", "to": "02:30", "timezone": "Europe/Berlin"},
            "2026-03-29T01:15:00",
            "2026-03-29T01:30:00",
        ),
        # 02:30 occurs twice on this day, and the first time counts.
        (
            {"from": "01:00", "to": "02:30", "timezone": "Europe/Berlin"},
            "2026-10-25T00:15:00",
            "2026-10-25T00:30:00",
        ),
        ({"from": "01:00", "to": "02:30", "timezone": "Europe/Berlin"}, "2026-10-25T01:15:00", None),
        # A day ahead of UTC, and a zone with a half hour.
        (
            {"from": "22:00", "to": "06:00", "timezone": "Pacific/Kiritimati"},
            "2026-11-26T10:00:00",
            "2026-11-26T16:00:00",
        ),
        (
            {"from": "22:00", "to": "06:00", "timezone": "Asia/Kolkata"},
            "2026-11-26T16:30:00",
            "2026-11-27T00:30:00",
        ),
    ],
)
def test_end(hours: dict[str, object], now: str, end: str | None) -> None:
    found = _read(hours).ends_at(datetime.fromisoformat(now).replace(tzinfo=UTC))
    assert found == (None if end is None else datetime.fromisoformat(end).replace(tzinfo=UTC))


@pytest.mark.parametrize(
    ("hours", "field"),
    [
        ({**_NIGHT, "timezone": "Europe/Atlantis"}, "quiet_hours.timezone"),
        ({**_NIGHT, "timezone": "/etc/passwd"}, "quiet_hours.timezone"),
        ({**_NIGHT, "timezone": ""}, "quiet_hours.timezone"),
        ({**_NIGHT, "days": []}, "quiet_hours.days"),
        ({**_NIGHT, "days": ["monday", "monday"]}, "quiet_hours.days"),
        ({"from": "07:00", "to": "07:00"}, "quiet_hours.to"),
    ],
)
def test_refused(hours: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_quiet_hours(_read(hours))
    assert [error.field for error in refused.value.errors] == [field]


def test_stored_hours_are_read_again() -> None:
    for document in (_NIGHT, _WEEKEND):
        hours = _read(document)
        check_quiet_hours(hours)
        text = write_quiet_hours(hours)
        assert text is not None
        assert read_quiet_hours(text) == hours
        assert describe_quiet_hours(text) == {"timezone": "UTC", "days": None, **document}
    assert write_quiet_hours(None) is None
    assert describe_quiet_hours(None) is None

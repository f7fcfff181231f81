"""Whole units of ranges that end now."""

from datetime import UTC, datetime, timedelta

from analytics_queries.telemetry.time_range import TimeRange, from_nanoseconds, to_nanoseconds
from control_domain.telemetry.time_ranges import whole_range

NOW = datetime(2026, 11, 26, 21, 44, 13, 500_000, tzinfo=UTC)


def test_a_range_has_whole_minutes_hours_or_days() -> None:
    cases = {
        timedelta(seconds=30): ("2026-11-26 21:43", "2026-11-26 21:45"),
        timedelta(hours=1): ("2026-11-26 20:44", "2026-11-26 21:45"),
        timedelta(hours=11, minutes=59): ("2026-11-26 09:45", "2026-11-26 21:45"),
        timedelta(hours=12): ("2026-11-26 09:00", "2026-11-26 22:00"),
        timedelta(days=13): ("2026-11-13 21:00", "2026-11-26 22:00"),
        timedelta(days=14): ("2026-11-12 00:00", "2026-11-27 00:00"),
        timedelta(days=30): ("2026-10-27 00:00", "2026-11-27 00:00"),
    }
    for length, (begin, end) in cases.items():
        whole = whole_range(TimeRange(to_nanoseconds(NOW - length), to_nanoseconds(NOW)))
        found = tuple(f"{from_nanoseconds(time):%Y-%m-%d %H:%M}" for time in (whole.start, whole.end))
        assert found == (begin, end), length


def test_the_largest_unit_can_be_limited() -> None:
    within = TimeRange(to_nanoseconds(NOW - timedelta(days=30)), to_nanoseconds(NOW))
    whole = whole_range(within, largest_s=60)
    assert whole.end - to_nanoseconds(NOW) == 46_500_000_000


def test_range_of_whole_units_is_unchanged() -> None:
    hour = NOW.replace(minute=0, second=0, microsecond=0)
    within = TimeRange(to_nanoseconds(hour - timedelta(hours=24)), to_nanoseconds(hour))
    assert whole_range(within) == within

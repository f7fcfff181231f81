"""The moments of edge cases: midnights, ends of periods, clock changes."""

import random
from datetime import UTC, date, datetime, timedelta
from functools import cache

from tests.analytics_queries.oracle.local_days import day_start, local, local_date
from tests.analytics_queries.oracle.visits import DAY, EPOCH, HOUR, MINUTE, SECOND

ZONES = (
    "Europe/Oslo",
    "Europe/London",
    "America/New_York",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Australia/Adelaide",
    "Pacific/Chatham",
    "Pacific/Auckland",
    "Pacific/Kiritimati",
    "America/Sao_Paulo",
    "America/Santiago",
    "America/Havana",
    "America/St_Johns",
    "Africa/Cairo",
    "Asia/Beirut",
    "Atlantic/Azores",
    "UTC",
)
DAYS = (1, 7, 30, 90, 365)
EARLIEST = (datetime(2023, 1, 1, tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)
LATEST = (datetime(2027, 1, 1, tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)


def to_ms(moment: datetime) -> int:
    """Return whole milliseconds since 1970, UTC."""
    return (moment - EPOCH) // timedelta(milliseconds=1)


def from_ms(ms: int) -> datetime:
    """Return the aware UTC time of milliseconds since 1970."""
    return EPOCH + timedelta(milliseconds=ms)


@cache
def clock_changes(zone: str, start: int, end: int) -> tuple[int, ...]:
    """Return the times from `start` to `end`, in milliseconds, at which the zone's offset changes."""
    changes = []
    for before in range(start, end, DAY):
        low, high = before, before + DAY
        if local(low, zone).utcoffset() == local(high, zone).utcoffset():
            continue
        while high - low > 1:
            half = (low + high) // 2
            same = local(half, zone).utcoffset() == local(before, zone).utcoffset()
            low, high = (half, high) if same else (low, half)
        changes.append(high)
    return tuple(changes)


def period_edges(zone: str, now_ms: int, days: int) -> list[int]:
    """Return the edges of a report on `days`: the first days of both periods and the last day of the earlier one, each
    with its cut."""
    today = local_date(now_ms, zone)
    elapsed = now_ms - day_start(today, zone)
    found = []
    for back in (days - 1, days, 2 * days - 1, 2 * days):
        start = day_start(today - timedelta(days=back), zone)
        found += [start, start + elapsed]
    return found


def edges(zone: str, now_ms: int) -> list[int]:
    """Return the times up to now, in milliseconds, around which a report of this moment is most likely to be wrong."""
    found = [moment for days in DAYS for moment in period_edges(zone, now_ms, days)]
    utc_midnights = [moment - moment % DAY for moment in found]
    changes = clock_changes(zone, now_ms - 730 * DAY, now_ms)
    return sorted(moment for moment in {*found, *utc_midnights, *changes} if moment <= now_ms)


def moments(rng: random.Random, zone: str) -> datetime:
    """Return the time of a report: an aware UTC time of whole milliseconds from 2023 to 2026."""
    changes = clock_changes(zone, EARLIEST, LATEST - 2 * DAY)
    kind = rng.random()
    if kind < 0.45 and changes:
        change = rng.choice(changes)
        if rng.random() < 0.3:
            return from_ms(change + rng.choice([-1, 0, 1, rng.randint(-2 * HOUR, 2 * HOUR)]))
        return within(rng, local_date(change, zone) + timedelta(days=rng.choice([0, 0, 1])), zone)
    if kind < 0.6:
        return within(rng, date(2024, 2, 29) + timedelta(days=rng.choice([0, 1])), zone)
    if kind < 0.8:
        day = local_date(rng.randrange(EARLIEST + DAY, LATEST - DAY), zone)
        return from_ms(day_start(day, zone) + rng.choice([0, 1, SECOND, rng.randint(0, 10 * MINUTE)]))
    return from_ms(rng.randrange(EARLIEST, LATEST))


def within(rng: random.Random, day: date, zone: str) -> datetime:
    """Return a random time of the zone's calendar day."""
    return from_ms(rng.randrange(day_start(day, zone), day_start(day + timedelta(days=1), zone)))

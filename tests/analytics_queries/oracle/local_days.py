"""Calendar days and periods of a time zone, in integer milliseconds since 1970, UTC."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from tests.analytics_queries.oracle.visits import DAY, EPOCH, HOUR


def local(ms: int, zone: str) -> datetime:
    """Return the moment as local time of the zone."""
    return (EPOCH + timedelta(milliseconds=ms)).astimezone(ZoneInfo(zone))


def local_date(ms: int, zone: str) -> date:
    """Return the calendar day of the moment in the zone."""
    return local(ms, zone).date()


@cache
def day_start(day: date, zone: str) -> int:
    """Return the first millisecond of the zone's calendar day by bisection, which works for days without midnight."""
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=EPOCH.tzinfo)
    middle = (noon - EPOCH) // timedelta(milliseconds=1)
    before, within = middle - 2 * DAY, middle + 2 * DAY
    while within - before > 1:
        half = (before + within) // 2
        if local_date(half, zone) < day:
            before = half
        else:
            within = half
    return within


@dataclass(frozen=True)
class Period:
    """`days` calendar days of `zone` that end with the day of `last`; events count from `start` to before `end`."""

    zone: str
    days: int
    last: date
    end: int

    @property
    def dates(self) -> list[date]:
        return [self.last - timedelta(days=back) for back in range(self.days - 1, -1, -1)]

    @property
    def start(self) -> int:
        return day_start(self.last - timedelta(days=self.days - 1), self.zone)

    def has(self, ms: int) -> bool:
        return self.start <= ms < self.end

    def slots(self) -> list[tuple[str, int, int]]:
        """Return the label, the first millisecond and the end (exclusive) of each entry of the series."""
        if self.days == 1:
            starts = range(self.start, self.end + 1, HOUR)
            return [
                (local(at, self.zone).isoformat(timespec="seconds"), at, min(at + HOUR, self.end))
                for at in starts
            ]
        slots = []
        for day in self.dates:
            after = day_start(day + timedelta(days=1), self.zone)
            slots.append((day.isoformat(), day_start(day, self.zone), min(after, self.end)))
        return slots


def current_period(zone: str, days: int, now_ms: int) -> Period:
    """Return the period of today and the days before it, up to now."""
    return Period(zone, days, local_date(now_ms, zone), now_ms)


def previous_period(zone: str, days: int, now_ms: int) -> Period:
    """Return the same number of days before that; its last day ends after the time that has elapsed today."""
    today = local_date(now_ms, zone)
    last = today - timedelta(days=days)
    elapsed = now_ms - day_start(today, zone)
    after = day_start(last + timedelta(days=1), zone)
    return Period(zone, days, last, min(day_start(last, zone) + elapsed, after))

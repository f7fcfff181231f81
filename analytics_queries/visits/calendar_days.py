"""Calendar days in a time zone, and the periods that reports cover. The functions have no side effects; the current
time is an argument."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

_DAY = timedelta(days=1)
_MOMENT = timedelta(microseconds=1)
# A visit lasts at most 24 h.
_VISIT = timedelta(hours=24)


def start_of_day(day: date, timezone: str) -> datetime:
    """Return the first moment of the day in UTC. If a clock change skips midnight, this is the moment of the
    change."""
    return datetime.combine(day, time.min, ZoneInfo(timezone)).astimezone(UTC)


def day_of(moment: datetime, timezone: str) -> date:
    """Return the calendar day that contains the moment."""
    return moment.astimezone(ZoneInfo(timezone)).date()


def days_between(first: date, last: date) -> list[date]:
    """Return all days from the first to the last."""
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def utc_days_of(days: Iterable[date], timezone: str, margin: timedelta = timedelta()) -> list[date]:
    """Return the UTC days that overlap these days, sorted. `margin`: extra time before and after each day."""
    found: set[date] = set()
    for day in days:
        begin = start_of_day(day, timezone) - margin
        end = start_of_day(day + _DAY, timezone) + margin - _MOMENT
        found.update(days_between(begin.date(), end.date()))
    return sorted(found)


def utc_days_around(days: Iterable[date], timezone: str) -> list[date]:
    """Return the UTC days that may contain events of visits of these days, sorted."""
    return utc_days_of(days, timezone, _VISIT)


@dataclass(frozen=True, slots=True)
class Period:
    """Consecutive calendar days. The last day ends at `end` (exclusive)."""

    days: Sequence[date]
    begin: datetime
    end: datetime

    @property
    def first(self) -> date:
        return self.days[0]

    @property
    def last(self) -> date:
        return self.days[-1]


def current_period(days: int, timezone: str, now: datetime) -> Period:
    """Return the period of `days` calendar days that ends now."""
    today = day_of(now, timezone)
    first = today - timedelta(days=days - 1)
    return Period(days_between(first, today), start_of_day(first, timezone), now)


def previous_period(current: Period, timezone: str) -> Period:
    """Return the period of equally many days before `current`. Its last day is cut after as much time as has passed
    today."""
    last = current.first - _DAY
    first = current.first - len(current.days) * _DAY
    elapsed = current.end - start_of_day(current.last, timezone)
    end = min(start_of_day(last, timezone) + elapsed, current.begin)
    return Period(days_between(first, last), start_of_day(first, timezone), end)


def whole_days(period: Period, timezone: str) -> Sequence[date]:
    """Return the days of the period. The last day is left out if it is cut, as today is."""
    is_cut = period.end < start_of_day(period.last + _DAY, timezone)
    return period.days[:-1] if is_cut else period.days

"""Which days of a site's visits are told as they are now, and which have to be told anew?"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from analytics_queries.visits.calendar_days import day_of, start_of_day, utc_days_around
from pipeline_contracts.times import to_epoch_ms
from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_sql

_SQL = read_sql(__file__)

# Today and the two days before. Older ones are compared by whole days in UTC: what may change them is over by then.
_NEAR_DAYS = 3
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class UntoldDay:
    """A day with events that no run tells of as they are now."""

    day: date
    near: int
    """Events that may change what is told of it, counted exactly."""
    far: int
    """The same by whole days in UTC."""
    is_open: bool
    """It is not over."""


@dataclass(frozen=True, slots=True)
class ToldDays:
    """How the days that were asked for stand."""

    runs: Mapping[date, int]
    untold: Sequence[UntoldDay]


async def told_days(
    store: ColumnStore, site_id: int, timezone: str, days: Sequence[date], now: datetime
) -> ToldDays:
    """`days` in order, of the time zone; events from `now` on do not count. Raises `StorageUnavailable`."""
    today = day_of(now, timezone)
    near = [today - number * _DAY for number in reversed(range(_NEAR_DAYS))]
    near_begin = [start_of_day(day, timezone).date() for day in near]
    result = await store.query(
        _SQL,
        {
            "site_id": site_id,
            "timezone": timezone,
            "first": min(days[0], near[0]),
            "last": days[-1],
            "near_days": near,
            "near_begin": near_begin,
            "near_end_ms": [to_epoch_ms(start_of_day(day + _DAY, timezone)) for day in near],
            "now_ms": to_epoch_ms(now),
        },
    )
    told: dict[date, tuple[int, int, int]] = {}
    counts: defaultdict[tuple[str, date], int] = defaultdict(int)
    for kind, day, run, events, far_events in result.rows:
        if kind == "told":
            told[day] = (run, events, far_events)
        else:
            counts[kind, day] = events
    begins = dict(zip(near, near_begin, strict=True))
    runs, untold = {}, []
    for day in days:
        far = sum(counts["far", one] for one in utc_days_around([day], timezone))
        begin = begins.get(day)
        # Exactly, and of the two days before as a whole: visits may have begun there.
        exact = (
            0 if begin is None else counts["near", day] + sum(counts["far", begin - n * _DAY] for n in (1, 2))
        )
        run, was_exact, was_far = told.get(day, (0, -1, -1))
        if was_far == far if begin is None else was_exact == exact:
            runs[day] = run
        elif far:
            untold.append(UntoldDay(day, exact, far, day >= today))
    return ToldDays(runs, untold)

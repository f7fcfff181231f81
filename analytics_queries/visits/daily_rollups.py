"""Which daily rollups of a site's visits are current, and which are stale?"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from analytics_queries.visits.calendar_days import day_of, start_of_day, utc_days_around
from pipeline_contracts.times import to_epoch_ms
from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_sql

_SQL = read_sql(__file__)

# Today and the two days before. Events of older days are counted by whole UTC days, which have ended by then.
_NEAR_DAYS = 3
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class StaleRollup:
    """A day whose rollup does not contain all its events, or that has no rollup."""

    day: date
    near: int
    """Number of events that may change the rollup, counted exactly."""
    far: int
    """Number of the same events, counted by whole UTC days."""
    is_open: bool
    """True if the day has not ended."""
    previous: int = 0
    """The run of the stale rollup. Its rows still exist for at least an hour. 0 if there is no rollup."""


@dataclass(frozen=True, slots=True)
class DailyRollups:
    """The daily rollups of some days of a site."""

    runs: Mapping[date, int]
    """The current run of each day. Days without events have none."""
    stale: Sequence[StaleRollup]
    open_days: Collection[date] = ()
    """Days whose rollups are in the table of unfinished days, or will be stored there."""


async def check_rollups(
    store: ColumnStore, site_id: int, timezone: str, days: Sequence[date], now: datetime
) -> DailyRollups:
    """Check which rollups of `days` in this time zone are current. `days` are in order. Events at or after `now`
    do not count. Raises `StorageUnavailable`."""
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
            "near_begin": near_begin,
            "near_end_ms": [to_epoch_ms(start_of_day(day + _DAY, timezone)) for day in near],
            "now_ms": to_epoch_ms(now),
        },
    )
    stored: dict[date, tuple[int, Sequence[int]]] = {}
    counts: defaultdict[tuple[str, date], int] = defaultdict(int)
    for kind, day, run, numbers in result.rows:
        if kind == "rollup":
            stored[day] = (run, numbers)
        elif kind == "far":
            counts["far", day] = numbers[0]
        else:
            counts |= {("near", near_day): number for near_day, number in zip(near, numbers, strict=True)}
    begins = dict(zip(near, near_begin, strict=True))
    runs, stale, open_days = {}, [], set()
    for day in days:
        far = sum(counts["far", utc_day] for utc_day in utc_days_around([day], timezone))
        begin = begins.get(day)
        # Events of the day itself are counted exactly. Events of the two days before, when its visits may have
        # begun, are counted by whole days.
        exact = (
            0 if begin is None else counts["near", day] + sum(counts["far", begin - n * _DAY] for n in (1, 2))
        )
        run, (was_exact, was_far, was_open) = stored.get(day, (0, (-1, -1, 0)))
        is_open = day >= today
        if was_far == far if begin is None else was_exact == exact:
            runs[day], is_open = run, bool(was_open)
        elif far:
            stale.append(StaleRollup(day, exact, far, is_open, run))
        if is_open:
            open_days.add(day)
    return DailyRollups(runs, stale, open_days)

"""Whether the days that a cron expression names are ever there; a first of the month that is its fifth Monday
(`0 0 */31 * 1#5`) is not.

To look for the next one day by day takes thousands of times as long where there is none for fifty years.
"""

from calendar import monthrange
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache

from cronsim import CronSim

# In 28 years every kind of month is there: each length with each weekday at its beginning.
_YEARS = range(2001, 2029)


def ever_comes(cron: CronSim) -> bool:
    """Whether there is a day on which it is due."""
    months = _join(_in_month(month) for month in cron.months)
    days = _join(_on_day(day) for day in cron.days)
    weekdays = _join(_on_weekday(weekday) for weekday in cron.weekdays)
    return bool(months & (days & weekdays if cron.day_and else days | weekdays))


def _join(sets: Iterable[int]) -> int:
    joined = 0
    for one in sets:
        joined |= one
    return joined


# A set of days is a number whose bits stand for those of `_days`.
@cache
def _days() -> Sequence[date]:
    """Every day of one month of each kind."""
    kinds = {monthrange(year, month): date(year, month, 1) for year in _YEARS for month in range(1, 13)}
    return [first + timedelta(days=day) for (_, length), first in kinds.items() for day in range(length)]


def _to_set(are_in: Iterable[bool]) -> int:
    return int("".join("1" if is_in else "0" for is_in in are_in), 2)


@cache
def _in_month(month: int) -> int:
    lengths = {monthrange(year, month)[1] for year in _YEARS}
    return _to_set(monthrange(day.year, day.month)[1] in lengths for day in _days())


@cache
def _on_day(day: int) -> int:
    probe = _probe()
    probe.days = {day}
    return _to_set(map(probe.match_dom, _days()))


@cache
def _on_weekday(weekday: int | tuple[int, int]) -> int:
    probe = _probe()
    probe.weekdays = {weekday}
    return _to_set(map(probe.match_dow, _days()))


def _probe() -> CronSim:
    # The library itself says what matches: it alone knows what L and LW are.
    return CronSim("* * * * *", datetime(2024, 1, 1, tzinfo=UTC))

"""Find cron expressions whose days never occur, like the first of a month that is its fifth Monday (`0 0 */31 * 1#5`).

Searching for the next such day, day by day through fifty years, would take thousands of times as long.
"""

from calendar import monthrange
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache

from cronsim import CronSim

# 28 years contain every kind of month: each length with each weekday as its first day.
_YEARS = range(2001, 2029)


def can_occur(cron: CronSim) -> bool:
    """True if there is a day on which the expression is due."""
    months = _join(_in_month(month) for month in cron.months)
    days = _join(_on_day(day) for day in cron.days)
    weekdays = _join(_on_weekday(weekday) for weekday in cron.weekdays)
    return bool(months & (days & weekdays if cron.day_and else days | weekdays))


def _join(day_sets: Iterable[int]) -> int:
    joined = 0
    for day_set in day_sets:
        joined |= day_set
    return joined


# A set of days is an integer with one bit for each of `_days`.
@cache
def _days() -> Sequence[date]:
    """Return every day of one month of each kind."""
    kinds = {monthrange(year, month): date(year, month, 1) for year in _YEARS for month in range(1, 13)}
    return [first + timedelta(days=day) for (_, length), first in kinds.items() for day in range(length)]


def _to_set(members: Iterable[bool]) -> int:
    return int("".join("1" if is_member else "0" for is_member in members), 2)


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
    # The library decides whether a day matches, because it also supports L and LW.
    return CronSim("* * * * *", datetime(2024, 1, 1, tzinfo=UTC))

"""Reads the scope of an analysis of a site's visits from the query of a request."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal

import msgspec

from analytics_queries.visit_analysis.conditions import Condition, Dimension, Operator
from analytics_queries.visit_analysis.request import make_period, shift_period
from analytics_queries.visits.calendar_days import Period, day_of
from pipeline_contracts.errors import FieldError, invalid_field, invalid_fields

Comparison = Literal["none", "previous", "year", "custom"]
Interval = Literal["hour", "day"]

DEFAULT_DAYS = 30
MAX_DAYS = 400
MAX_HOURLY_DAYS = 7
MAX_CONDITIONS = 20
MAX_VALUES = 20
MAX_VALUE_LENGTH = 2048
_DAY = timedelta(days=1)
_FILTERS_RULE = (
    'must be a JSON list of up to 20 conditions like ["is", "source", ["Google"]], each with 1 to 20 values of up to '
    "2,048 characters"
)

_Conditions = msgspec.json.Decoder(list[tuple[Operator, Dimension, list[str]]])


@dataclass(frozen=True, slots=True)
class PeriodChoice:
    """The days of an analysis: `days` up to today, or the days from `first` to `last`. If all are None, the default
    applies."""

    days: int | None = None
    first: str | None = None
    last: str | None = None


def read_conditions(filters: str | None) -> tuple[Condition, ...]:
    """Read the conditions from JSON. Raises `InvalidInput`."""
    if not filters:
        return ()
    try:
        found = _Conditions.decode(filters)
    except msgspec.DecodeError as error:
        raise invalid_field("filters", f"{_FILTERS_RULE}: {error}") from None
    conditions = []
    seen: set[tuple[str, bool]] = set()
    for operator, dimension, values in found:
        if not 1 <= len(values) <= MAX_VALUES or not all(
            0 < len(value) <= MAX_VALUE_LENGTH and "\0" not in value for value in values
        ):
            raise invalid_field("filters", _FILTERS_RULE)
        kind = (dimension, operator.startswith("contains"))
        if kind in seen:
            raise invalid_field(
                "filters",
                f"must have at most one is or is_not and one contains or contains_not of {dimension}",
            )
        seen.add(kind)
        if dimension == "country" and not kind[1]:
            values = [value.upper() for value in values]
        conditions.append(Condition(operator, dimension, tuple(values)))
    if len(conditions) > MAX_CONDITIONS:
        raise invalid_field("filters", _FILTERS_RULE)
    return tuple(conditions)


def read_period(choice: PeriodChoice, timezone: str, now: datetime) -> Period:
    """Return the period in the time zone of the site. Raises `InvalidInput`."""
    today = day_of(now, timezone)
    if choice.first is None and choice.last is None:
        return make_period(today - _DAY * ((choice.days or DEFAULT_DAYS) - 1), today, timezone, now)
    if choice.days is not None:
        raise invalid_field("days", "must be left out if from and to are given")
    if choice.first is None or choice.last is None:
        name = "from" if choice.first is None else "to"
        raise invalid_field(name, "is required with the other end of the period")
    first, last = _read_day("from", choice.first), _read_day("to", choice.last)
    if last < first:
        raise invalid_field("to", "must not be before from")
    if first > today:
        raise invalid_field("from", f"must not be after today, {today.isoformat()} in {timezone}")
    if (last - first).days >= MAX_DAYS:
        raise invalid_field("from", f"must be at most {MAX_DAYS} days before the end")
    return make_period(first, last, timezone, now)


def read_comparison(
    current: Period, comparison: Comparison, first: str | None, timezone: str
) -> Period | None:
    """Return the period to compare with. `first` is the first day of a custom one. Raises `InvalidInput`."""
    if comparison != "custom" and first is not None:
        raise invalid_field("compare_from", "must be left out unless compare is custom")
    match comparison:
        case "none":
            return None
        case "previous":
            begin = current.first - _DAY * len(current.days)
        case "year":
            begin = _year_before(current.first)
        case "custom":
            if first is None:
                raise invalid_field("compare_from", "is required if compare is custom")
            begin = _read_day("compare_from", first)
            if begin > current.first:
                raise invalid_field("compare_from", "must not be after the period itself")
    return shift_period(current, begin, timezone)


def read_interval(current: Period, interval: Interval | None) -> Interval:
    """Return the interval of the series: the given one, or hours for a single day and days for longer periods. Raises
    `InvalidInput`."""
    if interval == "hour" and len(current.days) > MAX_HOURLY_DAYS:
        raise invalid_field("interval", f"must be day for a period of over {MAX_HOURLY_DAYS} days")
    return interval or ("hour" if len(current.days) == 1 else "day")


def _read_day(name: str, text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = None
    # Only years that a time zone can convert.
    if day is None or not 2000 <= day.year <= 2100:
        raise invalid_fields([FieldError(name, "must be a day like 2026-11-26")])
    return day


def _year_before(day: date) -> date:
    try:
        return day.replace(year=day.year - 1)
    except ValueError:
        # The day is 29 February.
        return day.replace(year=day.year - 1, day=28)

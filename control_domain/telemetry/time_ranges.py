"""Time ranges of reads: `since` (`1h`, `7d`), or `from` and `to`; and the steps of series."""

import re
from datetime import UTC, datetime, timedelta

from analytics_queries.telemetry.metric_series import MAX_STEPS
from analytics_queries.telemetry.time_range import SECOND_NS, TimeRange, from_nanoseconds, to_nanoseconds
from pipeline_contracts.errors import FieldError, InvalidInput
from pipeline_contracts.times import format_time

MAX_RANGE = timedelta(days=90)
"""The default retention of telemetry."""
CLOCK_AHEAD = timedelta(minutes=10)
"""How far lists extend into the future, because the clock of a sender may be ahead."""
# The column store counts seconds from 1970 on, and lists of traces also read the day before the range.
_EARLIEST = datetime(1970, 1, 2, tzinfo=UTC)
DURATION = "[1-9][0-9]{0,5}[smhdw]"
_DURATION = re.compile("([1-9][0-9]{0,5})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DETAIL = "Fix the query parameters listed below and send the request again."
# Round lengths of steps, and the largest number of steps of a series for which the caller does not choose a length.
_STEP_SECONDS = (10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)
_DEFAULT_STEPS = 120
# Least length and unit in seconds: a range that ends now is extended to whole units.
_WHOLE_UNITS = ((14 * 86_400, 86_400), (12 * 3600, 3600), (0, 60))


def read_duration(text: str) -> timedelta | None:
    """Return a duration such as `90s`, `15m`, `1h`, `7d` or `2w`; None for any other text."""
    found = _DURATION.fullmatch(text)
    return None if found is None else timedelta(seconds=int(found[1]) * _SECONDS[found[2]])


def read_range(
    since: str | None,
    start: datetime | None,
    end: datetime | None,
    default: timedelta,
    now: datetime,
    *,
    ahead: timedelta = timedelta(0),
    longest: timedelta = MAX_RANGE,
) -> TimeRange:
    """Return the range of a read: the last `since`, or from `start` (`from`) up to `end` (`to`).

    `end` is now, and `start` is `default` before `end`, unless they are given. A range that ends now is `ahead` longer.
    Raises `InvalidInput`.
    """
    too_long = f"makes a range of more than {longest.days} days"
    if since is not None:
        if start is not None or end is not None:
            raise _invalid("since", "must be given without from and to")
        length = read_duration(since)
        if length is None:
            raise _invalid("since", "must be a duration like 15m, 1h or 7d; for times, use from and to")
        if length > longest:
            raise _invalid("since", too_long)
        return _range(now - length, now + ahead)
    for field, moment in (("from", start), ("to", end)):
        if moment is not None and not _EARLIEST <= moment <= now + longest:
            raise _invalid(field, "is too far from now")
    past_end = end or now + ahead
    end = end or now
    start = start or max(end - default, _EARLIEST)
    if start >= end:
        raise _invalid("from", "must be before to, which is now unless it is given")
    if end - start > longest:
        raise _invalid("from", too_long)
    return _range(start, past_end)


def read_step(step: str | None, within: TimeRange) -> int:
    """Return the step of a series in milliseconds: `step`, or a length that makes about a hundred steps. Raises
    `InvalidInput`."""
    if step is None:
        fitting = (seconds for seconds in _STEP_SECONDS if within.seconds / seconds <= _DEFAULT_STEPS)
        return next(fitting, _STEP_SECONDS[-1]) * 1000
    length = read_duration(step)
    if length is None:
        raise _invalid("step", "must be a duration like 30s, 5m or 1h")
    seconds = length // timedelta(seconds=1)
    if within.seconds / seconds > MAX_STEPS:
        least = -(-int(within.seconds) // MAX_STEPS)
        raise _invalid("step", f"must be at least {least}s: a series has up to {MAX_STEPS:,} steps")
    return seconds * 1000


def whole_range(within: TimeRange, *, largest_s: int = 86_400) -> TimeRange:
    """Extend a range that ends now to whole minutes; from 12 hours to whole hours, from 14 days to whole UTC days, if
    these are at most `largest_s` seconds.

    Rollups have these units. Rows with times in the future come from senders whose clocks are ahead.
    """
    units = (unit for least, unit in _WHOLE_UNITS if within.seconds >= least and unit <= largest_s)
    unit = next(units) * SECOND_NS
    return TimeRange(within.start // unit * unit, -(-within.end // unit) * unit)


def trend_step(within: TimeRange, steps: int) -> int:
    """Return the length in seconds of the steps of a trend with about `steps` steps: whole minutes, or whole hours
    from half an hour on, the units of rollups."""
    seconds = -(-within.seconds // steps)
    unit = 60 if seconds < 1800 else 3600
    return int(-(-seconds // unit)) * unit


def format_nanoseconds(nanoseconds: int) -> str:
    """Return the time in UTC, in the format of all responses."""
    return format_time(from_nanoseconds(nanoseconds))


def _range(start: datetime, end: datetime) -> TimeRange:
    return TimeRange(to_nanoseconds(start), to_nanoseconds(end))


def _invalid(field: str, message: str) -> InvalidInput:
    return InvalidInput(_DETAIL, errors=[FieldError(field, message)])

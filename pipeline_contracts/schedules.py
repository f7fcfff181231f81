"""Check schedules and compute due times: by a period in seconds, or by a cron expression in a time zone."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from pipeline_contracts.cron_days import can_occur

SHORTEST_PERIOD = 1
LONGEST_PERIOD = 366 * 86_400
_MINUTE_MS = 60_000


class BadSchedule(ValueError):
    """A schedule that is invalid, or never due."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Either `period_seconds` or `cron` (five fields) in `timezone` (an IANA name)."""

    period_seconds: int | None = None
    cron: str | None = None
    timezone: str = "UTC"


def check_schedule(schedule: Schedule) -> None:
    """Raise `BadSchedule` with the reason unless the schedule is valid and due at some time."""
    if (schedule.period_seconds is None) == (schedule.cron is None):
        raise BadSchedule("Give either a period or a cron expression.")
    try:
        zone = ZoneInfo(schedule.timezone)
    except (KeyError, ValueError, OSError):
        raise BadSchedule(
            f"{schedule.timezone!r} is no time zone. Use an IANA name, like Europe/Oslo."
        ) from None
    if schedule.period_seconds is not None:
        if not SHORTEST_PERIOD <= schedule.period_seconds <= LONGEST_PERIOD:
            raise BadSchedule("A period lasts from 1 second to 366 days.")
        return
    assert schedule.cron is not None
    if len(schedule.cron.split()) != 5:
        # The library allows a sixth field, for seconds.
        raise BadSchedule(f"{schedule.cron!r} is no cron expression of five fields.")
    try:
        cron = CronSim(schedule.cron, datetime(2024, 1, 1, tzinfo=zone))
    except CronSimError as error:
        raise BadSchedule(f"{schedule.cron!r} is no cron expression: {error}.") from None
    if not can_occur(cron):
        raise BadSchedule(f"{schedule.cron!r} never comes.")


def next_due(schedule: Schedule, after_ms: int) -> int:
    """Return the first due time after `after_ms`, both milliseconds since 1970.

    Cron follows local time as Debian's cron does: a job in a skipped hour runs right after it, a job in a repeated hour
    runs once, and a job that runs every so many minutes or hours follows elapsed time.
    """
    if schedule.period_seconds is not None:
        return after_ms + 1000 * schedule.period_seconds
    assert schedule.cron is not None
    # Cron has whole minutes: all times within a minute have the same next due time.
    return _next_by_cron(schedule.cron, schedule.timezone, after_ms // _MINUTE_MS)


@lru_cache(4096)
def _next_by_cron(cron: str, timezone: str, minute: int) -> int:
    after = datetime.fromtimestamp(minute * 60, UTC).astimezone(ZoneInfo(timezone))
    return int(next(CronSim(cron, after)).timestamp()) * 1000

"""The next due times of a schedule, before any heartbeat uses it."""

from collections.abc import Sequence
from datetime import datetime

from control_domain.monitors.settings import check_cron
from pipeline_contracts.schedules import next_due
from pipeline_contracts.times import format_time, from_epoch_ms, to_epoch_ms


def list_next_runs(cron: str, timezone: str, count: int, now: datetime) -> Sequence[str]:
    """Return the next due times of a cron expression in a time zone. Raises `InvalidInput`."""
    schedule = check_cron(cron, timezone)
    due, times = to_epoch_ms(now), []
    for _ in range(count):
        due = next_due(schedule, due)
        times.append(format_time(from_epoch_ms(due)))
    return times

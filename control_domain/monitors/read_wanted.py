"""What an operator wants of a heartbeat or a queue, read and checked. All raise `Refused`, which says what to do."""

from collections.abc import Mapping
from typing import Any

from control_domain.monitors.operations import HeartbeatSettings
from control_domain.refusals import Refused
from control_domain.slugs import LONGEST_NAME, is_name
from pipeline_contracts.schedules import BadSchedule, Schedule, check_schedule

_LONGEST_SECONDS = 366 * 86_400
_MOST_FAILURES = 1000
_LIMITS = ("grace_seconds", "max_runtime_seconds", "failures_before_down")


def read_name(wanted: Mapping[str, Any]) -> str:
    """`name`."""
    name = str(wanted.get("name") or "").strip()
    if not is_name(name):
        raise Refused(f"A name has 1 to {LONGEST_NAME} printable characters.")
    return name


def read_settings(wanted: Mapping[str, Any]) -> HeartbeatSettings:
    """`name`, either `period_seconds` or `cron` (and `timezone`), `grace_seconds`, `max_runtime_seconds` and
    `failures_before_down`; what is left out has its default."""
    schedule = Schedule(wanted.get("period_seconds"), wanted.get("cron"), wanted.get("timezone") or "UTC")
    limits = {name: wanted[name] for name in _LIMITS if wanted.get(name) is not None}
    settings = HeartbeatSettings(read_name(wanted), schedule, **limits)
    _check(settings)
    return settings


def _check(settings: HeartbeatSettings) -> None:
    try:
        check_schedule(settings.schedule)
    except BadSchedule as error:
        raise Refused(str(error)) from error
    if not 0 <= settings.grace_seconds <= _LONGEST_SECONDS:
        raise Refused("The grace time is 0 seconds to 366 days.")
    if not 1 <= settings.max_runtime_seconds <= _LONGEST_SECONDS:
        raise Refused("The longest run time is 1 second to 366 days.")
    if not 1 <= settings.failures_before_down <= _MOST_FAILURES:
        raise Refused(f"The number of failures before down is 1 to {_MOST_FAILURES}.")


def read_changes(wanted: Mapping[str, Any], present: HeartbeatSettings) -> HeartbeatSettings:
    """The present settings with those of `read_settings` in their place that are given; the name stays. A period takes
    the place of a cron expression, and the other way round."""
    columns = present.columns()
    given = {name: wanted[name] for name in columns if wanted.get(name) is not None}
    if not given:
        raise Refused("Say what to change: `pharos heartbeat set --help` lists what can be.")
    if "period_seconds" in given or "cron" in given:
        columns |= {"period_seconds": None, "cron": None}
    return read_settings({**columns, **given, "name": present.name})

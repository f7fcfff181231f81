"""Reads and checks the parameters of heartbeats and queues. All functions raise `Refused`, which says what to do."""

from collections.abc import Mapping
from typing import Any

from control_domain import next_steps
from control_domain.monitors.operations import HeartbeatSettings
from control_domain.refusals import Refused
from control_domain.slugs import MAX_NAME_LENGTH, is_name
from pipeline_contracts.schedules import BadSchedule, Schedule, check_schedule

_MAX_SECONDS = 366 * 86_400
_MAX_FAILURES = 1000
_LIMITS = ("grace_seconds", "max_runtime_seconds", "failures_before_down")


def read_monitor_name(params: Mapping[str, Any]) -> str:
    """Read `name`."""
    name = str(params.get("name") or "").strip()
    if not is_name(name):
        raise Refused(f"A name has 1 to {MAX_NAME_LENGTH} printable characters.")
    return name


def read_heartbeat_settings(params: Mapping[str, Any]) -> HeartbeatSettings:
    """Read `name`, either `period_seconds` or `cron` (and `timezone`), and optionally `grace_seconds`,
    `max_runtime_seconds` and `failures_before_down`."""
    schedule = Schedule(params.get("period_seconds"), params.get("cron"), params.get("timezone") or "UTC")
    limits = {name: params[name] for name in _LIMITS if params.get(name) is not None}
    settings = HeartbeatSettings(read_monitor_name(params), schedule, **limits)
    _check_settings(settings)
    return settings


def _check_settings(settings: HeartbeatSettings) -> None:
    try:
        check_schedule(settings.schedule)
    except BadSchedule as error:
        raise Refused(str(error)) from error
    if not 0 <= settings.grace_seconds <= _MAX_SECONDS:
        raise Refused("The grace time is 0 seconds to 366 days.")
    if not 1 <= settings.max_runtime_seconds <= _MAX_SECONDS:
        raise Refused("The longest run time is 1 second to 366 days.")
    if not 1 <= settings.failures_before_down <= _MAX_FAILURES:
        raise Refused(f"The number of failures before down is 1 to {_MAX_FAILURES}.")


def read_heartbeat_changes(params: Mapping[str, Any], present: HeartbeatSettings) -> HeartbeatSettings:
    """Return the present settings with the given changes, named as in `read_heartbeat_settings`; the name stays. A
    period replaces a cron expression, and the reverse."""
    columns = present.columns()
    changes = {name: params[name] for name in columns if params.get(name) is not None}
    if not changes:
        raise Refused(next_steps.CHOOSE_HEARTBEAT_CHANGES)
    if "period_seconds" in changes or "cron" in changes:
        columns |= {"period_seconds": None, "cron": None}
    return read_heartbeat_settings({**columns, **changes, "name": present.name})

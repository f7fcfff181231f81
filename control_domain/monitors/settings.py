"""Checks names of monitors and settings of heartbeats. Every function raises `InvalidInput` with all invalid fields.

Ranges of numbers and lengths of texts are part of the types, which callers check.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, TypeVar

from msgspec import Meta

from control_domain.monitors.operations import HeartbeatSettings
from control_domain.slugs import MAX_NAME_LENGTH, is_name
from pipeline_contracts.errors import FieldError, invalid_fields
from pipeline_contracts.schedules import (
    LONGEST_PERIOD,
    SHORTEST_PERIOD,
    BadSchedule,
    Schedule,
    check_schedule,
)

T = TypeVar("T")

MAX_SECONDS = 366 * 86_400
MAX_FAILURES = 1000
MAX_CRON_LENGTH = 200
MAX_TIMEZONE_LENGTH = 64

MonitorName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_NAME_LENGTH,
        description="1 to 100 printable characters; unique in the environment.",
    ),
]
PeriodSeconds = Annotated[
    int,
    Meta(
        ge=SHORTEST_PERIOD,
        le=LONGEST_PERIOD,
        description="Seconds from one run to the next. Either this or `cron`.",
    ),
]
Cron = Annotated[
    str,
    Meta(
        max_length=MAX_CRON_LENGTH,
        description="The schedule of a crontab: five fields. Either this or `period_seconds`.",
        examples=["0 3 * * *"],
    ),
]
Timezone = Annotated[
    str,
    Meta(
        max_length=MAX_TIMEZONE_LENGTH,
        description="The IANA time zone of `cron`.",
        examples=["Europe/Oslo"],
    ),
]
GraceSeconds = Annotated[
    int,
    Meta(ge=0, le=MAX_SECONDS, description="Seconds after the due time until a late run counts as missed."),
]
MaxRuntimeSeconds = Annotated[
    int, Meta(ge=1, le=MAX_SECONDS, description="Seconds after which an open run counts as failed.")
]
FailuresBeforeDown = Annotated[
    int,
    Meta(
        ge=1,
        le=MAX_FAILURES,
        description="The number of consecutive failures after which the heartbeat is down.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatChanges:
    """The settings of a heartbeat that change; None leaves a setting unchanged.

    A period replaces a cron expression, and the reverse.
    """

    name: str | None = None
    period_seconds: int | None = None
    cron: str | None = None
    timezone: str | None = None
    grace_seconds: int | None = None
    max_runtime_seconds: int | None = None
    failures_before_down: int | None = None


def check_monitor_name(name: str) -> str:
    """Return the name without spaces around it."""
    stripped = name.strip()
    if errors := list(_find_name_faults(stripped)):
        raise invalid_fields(errors)
    return stripped


def check_heartbeat_settings(settings: HeartbeatSettings) -> HeartbeatSettings:
    """Return the settings without superfluous spaces in the name and the cron expression."""
    name, schedule = settings.name.strip(), settings.schedule
    if errors := [*_find_name_faults(name), *_find_schedule_faults(schedule)]:
        raise invalid_fields(errors)
    if schedule.cron is not None:
        schedule = replace(schedule, cron=" ".join(schedule.cron.split()))
    return replace(settings, name=name, schedule=schedule)


def check_cron(cron: str, timezone: str) -> Schedule:
    """Return the schedule without superfluous spaces in the expression. Raises `InvalidInput`."""
    schedule = Schedule(cron=" ".join(cron.split()), timezone=timezone)
    if errors := list(_find_schedule_faults(schedule)):
        raise invalid_fields(errors)
    return schedule


def change_settings(present: HeartbeatSettings, changes: HeartbeatChanges) -> HeartbeatSettings:
    """Return the checked settings with the changes."""
    schedule = present.schedule
    period_seconds, cron = schedule.period_seconds, schedule.cron
    if changes.period_seconds is not None or changes.cron is not None:
        period_seconds, cron = changes.period_seconds, changes.cron
    return check_heartbeat_settings(
        HeartbeatSettings(
            _or_present(changes.name, present.name),
            Schedule(period_seconds, cron, _or_present(changes.timezone, schedule.timezone)),
            _or_present(changes.grace_seconds, present.grace_seconds),
            _or_present(changes.max_runtime_seconds, present.max_runtime_seconds),
            _or_present(changes.failures_before_down, present.failures_before_down),
        )
    )


def _or_present(new: T | None, present: T) -> T:
    return present if new is None else new


def _find_name_faults(name: str) -> Iterator[FieldError]:
    if not is_name(name):
        yield FieldError("name", f"must be 1 to {MAX_NAME_LENGTH} printable characters")


def _find_schedule_faults(schedule: Schedule) -> Iterator[FieldError]:
    if schedule.period_seconds is None and schedule.cron is None:
        yield FieldError("period_seconds", "is required unless cron is given")
    elif schedule.period_seconds is not None and schedule.cron is not None:
        yield FieldError("cron", "must be left out if period_seconds is given")
    try:
        check_schedule(Schedule(SHORTEST_PERIOD, timezone=schedule.timezone))
    except BadSchedule as error:
        yield _describe_fault("timezone", error)
    if schedule.cron is not None:
        try:
            # The expression alone: the time zone has its own error.
            check_schedule(Schedule(cron=schedule.cron))
        except BadSchedule as error:
            yield _describe_fault("cron", error)


def _describe_fault(field: str, error: BadSchedule) -> FieldError:
    return FieldError(field, str(error).removesuffix("."))

"""Read heartbeats and queues of a configuration document."""

from collections.abc import Callable, Mapping
from typing import Any

from control_domain.configurations.addresses import Address
from control_domain.configurations.documents.read_duration import read_duration
from control_domain.configurations.documents.read_settings import (
    BAD_NAME,
    apply_rule,
    find_bound_fields,
    is_trimmed_name,
    read_settings,
    read_timezone,
)
from control_domain.configurations.resources import DesiredResource
from control_domain.documents.field import Field
from control_domain.monitors.settings import MAX_CRON_LENGTH, MAX_FAILURES, MAX_SECONDS
from pipeline_contracts.schedules import Schedule, check_schedule

_NO_CRON = "is not a cron expression of five fields that is ever due"


def read_heartbeat(address: Address, field: Field) -> DesiredResource:
    """Read the heartbeat. If the document gives the cron expression or the period, the other field becomes None."""
    if not is_trimmed_name(address[-1]):
        field.refuse(BAD_NAME)
    members = field.known_members(tuple(_HEARTBEAT), allow_null=True) or {}
    fields = read_settings(members, _HEARTBEAT)
    if "cron" in fields and "period" in fields:
        field.refuse("has both a cron expression and a period: leave one of them out")
    elif "cron" in fields or "period" in fields:
        fields = {"cron": None, "period": None, **fields}
    return DesiredResource(address, fields, field.node.line, find_bound_fields(members, _HEARTBEAT))


def read_queue(address: Address, field: Field) -> DesiredResource:
    """Read the queue, which has no settings."""
    if not is_trimmed_name(address[-1]):
        field.refuse(BAD_NAME)
    members = field.members(allow_null=True) or {}
    for member in members.values():
        member.refuse("unknown; a queue has no settings: write {}")
    return DesiredResource(address, {}, field.node.line)


def _read_cron(field: Field) -> str | None:
    cron = field.text(MAX_CRON_LENGTH)
    return None if cron is None else apply_rule(field, _check_cron, cron, _NO_CRON)


def _read_failures(field: Field) -> int | None:
    failures = field.integer()
    return None if failures is None else apply_rule(field, _check_failures, failures)


def _check_cron(cron: str) -> str:
    check_schedule(Schedule(cron=cron))
    return cron


def _check_period(seconds: int) -> int:
    check_schedule(Schedule(seconds))
    return seconds


def _check_grace(seconds: int) -> int:
    if not 0 <= seconds <= MAX_SECONDS:
        raise ValueError("The grace time is 0 seconds to 366 days")
    return seconds


def _check_max_runtime(seconds: int) -> int:
    if not 1 <= seconds <= MAX_SECONDS:
        raise ValueError("The longest run time is 1 second to 366 days")
    return seconds


def _check_failures(failures: int) -> int:
    if not 1 <= failures <= MAX_FAILURES:
        raise ValueError(f"The number of failures before down is 1 to {MAX_FAILURES}")
    return failures


_HEARTBEAT: Mapping[str, Callable[[Field], Any]] = {
    "cron": _read_cron,
    "period": read_duration(_check_period),
    "timezone": read_timezone,
    "grace": read_duration(_check_grace),
    "max_runtime": read_duration(_check_max_runtime),
    "failures_before_down": _read_failures,
    "paused": Field.boolean,
}

"""Reads heartbeats and queues of a configuration document."""

from collections.abc import Callable, Mapping
from typing import Any

from control_domain.configurations.addresses import Address
from control_domain.configurations.documents.read_settings import (
    BAD_NAME,
    Read,
    find_bound,
    is_called,
    obey,
    read_settings,
    read_timezone,
)
from control_domain.configurations.resources import DesiredResource
from control_domain.documents.field import Field
from control_domain.monitors import params as monitor_params
from pipeline_contracts.durations import BadDuration, format_duration, parse_duration

LONGEST_CRON = 200
"""As long as the column of heartbeats holds."""
_LONGEST_DURATION = 20
_NO_DURATION = "must be a duration, like 90s, 30m, 2h or 1d"


def read_heartbeat(address: Address, field: Field) -> DesiredResource:
    """The heartbeat; where the document says either its cron expression or its period, the other one is None."""
    if not is_called(address[-1]):
        field.refuse(BAD_NAME)
    members = field.known_members(tuple(_HEARTBEAT), allow_null=True) or {}
    fields = read_settings(members, _HEARTBEAT)
    if "cron" in fields and "period" in fields:
        field.refuse("has both a cron expression and a period: leave one of them out")
    elif "cron" in fields or "period" in fields:
        fields = {"cron": None, "period": None, **fields}
    return DesiredResource(address, fields, field.node.line, find_bound(members, _HEARTBEAT))


def read_queue(address: Address, field: Field) -> DesiredResource:
    """The queue, of which there is nothing to say."""
    if not is_called(address[-1]):
        field.refuse(BAD_NAME)
    members = field.members(allow_null=True) or {}
    for member in members.values():
        member.refuse("unknown; a queue has no settings: write {}")
    return DesiredResource(address, {}, field.node.line)


def _read_cron(field: Field) -> str | None:
    cron = field.text(LONGEST_CRON)
    if cron is None or not _has(field, "cron", cron):
        return None
    return cron


def _read_failures(field: Field) -> int | None:
    failures = field.integer()
    if failures is None or not _has(field, "failures_before_down", failures):
        return None
    return failures


def _duration_of(setting: str) -> Read:
    def read(field: Field) -> str | None:
        seconds = _read_seconds(field)
        if seconds is None or not _has(field, setting, seconds):
            return None
        return format_duration(seconds)

    return read


def _read_seconds(field: Field) -> int | None:
    """A number without a unit is none: what is it that it counts?"""
    if isinstance(field.node.value, int | float):
        field.refuse(_NO_DURATION)
        return None
    given = field.text(_LONGEST_DURATION)
    if given is None:
        return None
    try:
        if not given.isdigit():
            return parse_duration(given)
    except BadDuration:
        pass
    field.refuse(_NO_DURATION)
    return None


def _has(field: Field, setting: str, value: Any) -> bool:
    """Whether a heartbeat may have it, by the rules of all heartbeats."""
    wanted: dict[str, Any] = {"name": "any", "period_seconds": 1}
    if setting == "cron":
        del wanted["period_seconds"]
    wanted[setting] = value
    rule = "is no cron expression of five fields that ever comes"
    return obey(field, monitor_params.read_heartbeat_settings, wanted, rule) is not None


_HEARTBEAT: Mapping[str, Callable[[Field], Any]] = {
    "cron": _read_cron,
    "period": _duration_of("period_seconds"),
    "timezone": read_timezone,
    "grace": _duration_of("grace_seconds"),
    "max_runtime": _duration_of("max_runtime_seconds"),
    "failures_before_down": _read_failures,
    "paused": Field.boolean,
}

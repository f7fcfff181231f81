"""Read heartbeats and queues of a configuration document."""

from collections.abc import Callable, Mapping
from typing import Any

from control_domain.configurations.addresses import Address
from control_domain.configurations.documents.read_settings import (
    BAD_NAME,
    Read,
    apply_rule,
    find_bound_fields,
    is_trimmed_name,
    read_settings,
    read_timezone,
)
from control_domain.configurations.resources import DesiredResource
from control_domain.documents.field import Field
from control_domain.monitors import params as heartbeat_rules
from pipeline_contracts.durations import BadDuration, format_duration, parse_duration

LONGEST_CRON = 200
"""The size of the database column."""
_LONGEST_DURATION = 20
_NO_DURATION = "must be a duration, like 90s, 30m, 2h or 1d"


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
    cron = field.text(LONGEST_CRON)
    if cron is None or not _is_allowed(field, "cron", cron):
        return None
    return cron


def _read_failures(field: Field) -> int | None:
    failures = field.integer()
    if failures is None or not _is_allowed(field, "failures_before_down", failures):
        return None
    return failures


def _read_duration_of(setting: str) -> Read:
    def read(field: Field) -> str | None:
        seconds = _read_seconds(field)
        if seconds is None or not _is_allowed(field, setting, seconds):
            return None
        return format_duration(seconds)

    return read


def _read_seconds(field: Field) -> int | None:
    """Read a duration; numbers without a unit are refused."""
    if isinstance(field.node.value, int | float):
        field.refuse(_NO_DURATION)
        return None
    text = field.text(_LONGEST_DURATION)
    if text is None:
        return None
    try:
        if not text.isdigit():
            return parse_duration(text)
    except BadDuration:
        pass
    field.refuse(_NO_DURATION)
    return None


def _is_allowed(field: Field, setting: str, value: Any) -> bool:
    """Check one setting by the rules of all heartbeats."""
    settings: dict[str, Any] = {"name": "any", "period_seconds": 1}
    if setting == "cron":
        del settings["period_seconds"]
    settings[setting] = value
    message = "is no cron expression of five fields that ever comes"
    return apply_rule(field, heartbeat_rules.read_heartbeat_settings, settings, message) is not None


_HEARTBEAT: Mapping[str, Callable[[Field], Any]] = {
    "cron": _read_cron,
    "period": _read_duration_of("period_seconds"),
    "timezone": read_timezone,
    "grace": _read_duration_of("grace_seconds"),
    "max_runtime": _read_duration_of("max_runtime_seconds"),
    "failures_before_down": _read_failures,
    "paused": Field.boolean,
}

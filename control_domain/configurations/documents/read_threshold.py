"""Read a threshold of a configuration document."""

from collections.abc import Mapping

from control_domain.configurations.addresses import Address
from control_domain.configurations.documents.read_duration import read_duration
from control_domain.configurations.documents.read_settings import (
    BAD_NAME,
    Read,
    is_trimmed_name,
    read_settings,
    without_bindings,
)
from control_domain.configurations.resources import DesiredResource, shorten_number
from control_domain.documents.field import Field
from control_domain.notifications.threshold_settings import (
    AGGREGATIONS,
    MAX_PENDING_SECONDS,
    MAX_TARGET_LENGTH,
    MAX_VALUE,
    MAX_WINDOW_SECONDS,
    MIN_WINDOW_SECONDS,
    THRESHOLD_KINDS,
)
from pipeline_contracts.alert_kinds import SEVERITIES


def read_threshold(address: Address, field: Field) -> DesiredResource:
    """Read the threshold."""
    if not is_trimmed_name(address[-1]):
        field.refuse(BAD_NAME)
    members = without_bindings(field.known_members(tuple(_THRESHOLD), allow_null=True) or {})
    return DesiredResource(address, read_settings(members, _THRESHOLD), field.node.line)


def _read_target(field: Field) -> str | None:
    """Return a name of telemetry without surrounding blanks, as the API does."""
    text = field.text(MAX_TARGET_LENGTH)
    if text is not None and not (text.strip() and text.isprintable()):
        field.refuse(f"must be 1 to {MAX_TARGET_LENGTH} printable characters")
        return None
    return text and text.strip()


def _read_number(field: Field) -> int | float | None:
    number = field.number(-MAX_VALUE, MAX_VALUE)
    return None if number is None else shorten_number(number)


def _check_window(seconds: int) -> int:
    if not MIN_WINDOW_SECONDS <= seconds <= MAX_WINDOW_SECONDS:
        raise ValueError("The window is 1 minute to 1 hour")
    return seconds


def _check_pending(seconds: int) -> int:
    if not 0 <= seconds <= MAX_PENDING_SECONDS:
        raise ValueError("The pending time is 0 seconds to 1 day")
    return seconds


_THRESHOLD: Mapping[str, Read] = {
    "kind": lambda field: field.choice(THRESHOLD_KINDS),
    "target": _read_target,
    "service": lambda field: None if field.is_null else _read_target(field),
    "aggregation": lambda field: field.choice(AGGREGATIONS),
    "direction": lambda field: field.choice(("above", "below")),
    "threshold": _read_number,
    "recovery": _read_number,
    "window": read_duration(_check_window),
    "pending": read_duration(_check_pending),
    "severity": lambda field: field.choice(SEVERITIES),
    "enabled": Field.boolean,
}

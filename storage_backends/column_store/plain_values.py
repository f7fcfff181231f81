"""Conversion of the driver's values to those of the interface."""

from datetime import UTC, datetime
from typing import Any


def to_plain(value: Any) -> Any:
    """Return the value with naive times, also those in arrays, made aware in UTC: the driver omits the zone of columns
    in UTC."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    if isinstance(value, list):
        return [to_plain(member) for member in value]
    return value

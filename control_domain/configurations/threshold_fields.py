"""The fields of a threshold in documents, and its settings in the domain."""

from collections.abc import Mapping
from typing import Any

from control_domain.configurations.resources import FIELDS, Value, shorten_number
from control_domain.notifications.threshold_settings import ThresholdSettings
from control_domain.tables.notifications import AlertThreshold
from pipeline_contracts.durations import format_duration, parse_duration

_DEFAULTS: Mapping[str, Any] = FIELDS["threshold"]


def build_threshold_fields(threshold: AlertThreshold) -> dict[str, Value]:
    return {
        "kind": threshold.kind,
        "target": threshold.target,
        "service": threshold.service,
        "aggregation": threshold.aggregation,
        "direction": "above" if threshold.is_above else "below",
        "threshold": shorten_number(threshold.threshold),
        "recovery": shorten_number(threshold.recovery),
        "window": format_duration(threshold.window_seconds),
        "pending": format_duration(threshold.pending_seconds),
        "severity": threshold.severity,
        "enabled": threshold.enabled,
    }


def read_threshold_fields(name: str, fields: Mapping[str, Any]) -> ThresholdSettings:
    """Return the settings of a threshold that has these fields, with the defaults for those that are None."""
    given = {**_DEFAULTS, **{field: value for field, value in fields.items() if value is not None}}
    window, pending = given.pop("window"), given.pop("pending")
    return ThresholdSettings(
        name=name, window_seconds=parse_duration(window), pending_seconds=parse_duration(pending), **given
    )

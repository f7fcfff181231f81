"""Convert Sentry's logs to OTLP log records."""

from collections.abc import Mapping
from typing import Any

from ingest_edge.sentry.typed_attributes import read_typed, split_source
from ingest_edge.sentry.values import (
    Source,
    as_dict,
    as_hex,
    as_nanoseconds,
    as_text,
    json_text,
    otlp_attributes,
)

_SEVERITIES = {"trace": 1, "debug": 5, "info": 9, "warn": 13, "warning": 13, "error": 17, "fatal": 21}
_BODY = 64 * 1024

Logs = list[tuple[Source, dict[str, Any]]]
"""OTLP log records, each with its source."""


def convert_logs(container: dict[str, Any], sdk: Mapping[str, Any]) -> tuple[Logs, int]:
    """Return the records of an item `log`, and the number of invalid ones. `sdk` is from the envelope's header."""
    items = container.get("items")
    if not isinstance(items, list):
        items = [container]
    records = [_convert(item, sdk) for item in items]
    valid = [record for record in records if record is not None]
    return valid, len(records) - len(valid)


def _convert(item: Any, sdk: Mapping[str, Any]) -> tuple[Source, dict[str, Any]] | None:
    log = as_dict(item)
    body = log.get("body")
    time = as_nanoseconds(log.get("timestamp"))
    text = body[:_BODY] if isinstance(body, str) else json_text(body)
    if text is None or time is None:
        return None
    source, attributes = split_source(read_typed(log.get("attributes")), sdk, "")
    level = as_text(log.get("level")).lower()
    number = log.get("severity_number")
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= 24:
        number = _SEVERITIES.get(level, 0)
    record: dict[str, Any] = {
        "timeUnixNano": time,
        "severityNumber": number,
        "severityText": level.upper(),
        "body": {"stringValue": text},
    }
    parent = attributes.pop("sentry.trace.parent_span_id", None)
    for name, value in (
        ("traceId", as_hex(log.get("trace_id"), 32)),
        ("spanId", as_hex(log.get("span_id"), 16) or as_hex(parent, 16)),
    ):
        if value:
            record[name] = value
    record["attributes"] = otlp_attributes(attributes)
    return source, record

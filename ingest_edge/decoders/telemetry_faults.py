"""List all invalid fields of an ingest body that the fast decoder has refused.

Each field is decoded as the same type as in the fast decoder, so that the two cannot disagree. Fields stay raw JSON
until they are checked: a refused body must not take more memory than an accepted one.
"""

from typing import get_args

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ingest_edge.decoders.raw_events import split_events
from pipeline_contracts.errors import MAX_FIELD_ERRORS, FieldError
from pipeline_contracts.telemetry import BatchId, EventType, Severity, TelemetryEvent

_FREE_FORM = ("attributes", "payload")
_EXPECTED = {
    "type": "must be one of " + ", ".join(get_args(EventType)),
    "severity": "must be one of " + ", ".join(get_args(Severity)),
    "timestamp": "must be an RFC 3339 date-time with a time zone, like 2026-01-31T12:00:00.000Z",
    "status_code": "must be a whole number of 64 bits",
    "affected_users": "must be a whole number of 64 bits",
    "duration_ms": "must be a number of 64 bits",
    "attributes": "must be an object",
    "payload": "must be an object",
}
_NULL = Raw(b"null")


class _RawBatch(msgspec.Struct, gc=False):
    batch_id: Raw = _NULL
    events: Raw = _NULL


_FIELDS = msgspec.structs.fields(TelemetryEvent)
_RawEvent = msgspec.defstruct(
    "RawEvent", [(field.encode_name, Raw | UnsetType, UNSET) for field in _FIELDS], gc=False
)
_decode_batch = msgspec.json.Decoder(_RawBatch).decode
_decode_batch_id = msgspec.json.Decoder(BatchId).decode
_decode_event = msgspec.json.Decoder(_RawEvent).decode
_decode_field = {field.encode_name: msgspec.json.Decoder(field.type).decode for field in _FIELDS}


def list_faults(body: bytes, max_events: int) -> list[FieldError]:
    """Return the invalid fields in the order of the document, up to 50; empty if none was found.

    Raises `TooManyEvents` for more than `max_events`.
    """
    try:
        batch = _decode_batch(body)
    except msgspec.ValidationError:
        return [FieldError("", "must be an object with batch_id and events")]
    except (msgspec.DecodeError, RecursionError) as error:
        return [FieldError("", f"is not valid JSON: {error}")]
    faults = []
    if (fault := _batch_id_fault(batch.batch_id)) is not None:
        faults.append(FieldError("batch_id", fault))
    faults.extend(_events_faults(batch.events, max_events))
    return faults[:MAX_FIELD_ERRORS]


def _batch_id_fault(batch_id: Raw) -> str | None:
    if _is_null(batch_id):
        return "is required"
    if not _starts_with(batch_id, '"'):
        return "must be a string"
    try:
        _decode_batch_id(batch_id)
    except msgspec.ValidationError:
        return "must have 1 to 100 characters"
    return None


def _events_faults(events: Raw, max_events: int) -> list[FieldError]:
    if _is_null(events):
        return [FieldError("events", "is required")]
    if not _starts_with(events, "["):
        return [FieldError("events", "must be an array")]
    items = split_events(events, max_events)
    if not items:
        return [FieldError("events", "must have at least 1 item")]
    faults: list[FieldError] = []
    for index, event in enumerate(items):
        faults.extend(_event_faults(f"events[{index}]", event))
        if len(faults) >= MAX_FIELD_ERRORS:
            break
    return faults


def _event_faults(path: str, event: Raw) -> list[FieldError]:
    if not _starts_with(event, "{"):
        return [FieldError(path, "must be an object")]
    faults = []
    for field, value in zip(_FIELDS, msgspec.structs.astuple(_decode_event(event)), strict=True):
        name = field.encode_name
        if value is UNSET or _is_null(value):
            if field.required:
                faults.append(FieldError(f"{path}.{name}", "is required; " + _EXPECTED[name]))
        elif not _fits(name, value):
            faults.append(FieldError(f"{path}.{name}", _EXPECTED.get(name, "must be a string")))
    return faults


def _fits(name: str, value: Raw) -> bool:
    if name in _FREE_FORM:
        return _starts_with(value, "{")
    try:
        _decode_field[name](value)
    except msgspec.ValidationError:
        return False
    return True


def _is_null(value: Raw) -> bool:
    # No other JSON value begins with this letter.
    return _starts_with(value, "n")


def _starts_with(value: Raw, character: str) -> bool:
    return memoryview(value)[0] == ord(character)

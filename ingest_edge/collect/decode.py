"""Decodes the body of a collect request."""

import msgspec
from msgspec import Raw, Struct

from ingest_edge.decoders.leap_seconds import settle_events
from ingest_edge.decoders.member_faults import faults_of_members
from pipeline_contracts.collected import MOST_EVENTS, MOST_PROPERTIES, SentEvent, SentEvents
from pipeline_contracts.errors import MAX_FIELD_ERRORS, FieldError, InvalidInput
from pipeline_contracts.json_members import NotAnObject

_decode = msgspec.json.Decoder(SentEvents).decode
_STRING = "must be a string"
_EXPECTED = {
    "id": "must be a UUID",
    "type": "must be one of pageview, event",
    "path": "must be a string of at most 2048 characters",
    "occurred_at": "must be an RFC 3339 date-time with its offset, like 2026-01-31T12:00:00.000Z",
    "properties": f"must be an object of at most {MOST_PROPERTIES} properties",
}
_faults_of_members = faults_of_members(SentEvent, _EXPECTED, _STRING)


class _RawEvents(Struct, gc=False):
    events: list[Raw]


_split = msgspec.json.Decoder(_RawEvents).decode


def decode_events(body: bytes) -> list[SentEvent]:
    """The events in the body, all of them valid. Raises `InvalidInput` that lists the fields at fault."""
    try:
        return _decode(body).events
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        settled = settle_events(body, "occurred_at", MOST_EVENTS)
        if settled is not None:
            return decode_events(settled)
        faults = _faults(body) or [FieldError("", str(error))]
        raise InvalidInput("Nothing was taken. Mend the fields below.", errors=faults) from error


def _faults(body: bytes) -> list[FieldError]:
    try:
        events = _split(body).events
    except msgspec.ValidationError:
        return [FieldError("events", "is required: an array of events")]
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return [FieldError("", f"must be a JSON object: {error}")]
    if not 1 <= len(events) <= MOST_EVENTS:
        return [FieldError("events", f"must have 1 to {MOST_EVENTS} items")]
    found: list[FieldError] = []
    for index, raw in enumerate(events):
        found += _faults_of_event(f"events[{index}]", bytes(raw))
    return found[:MAX_FIELD_ERRORS]


def _faults_of_event(where: str, raw: bytes) -> list[FieldError]:
    try:
        return _faults_of_members(raw, f"{where}.")
    except NotAnObject:
        return [FieldError(where, "must be an object")]

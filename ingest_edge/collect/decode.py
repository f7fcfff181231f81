"""Decode the body of a collect request."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw, Struct

from ingest_edge.decoders.member_faults import make_fault_lister
from pipeline_contracts.collected import MAX_EVENTS, MAX_PROPERTIES, SentEvent, SentEvents
from pipeline_contracts.errors import MAX_FIELD_ERRORS, FieldError, InvalidInput
from pipeline_contracts.json_members import NotAnObject
from pipeline_contracts.leap_seconds import replace_leap_second
from pipeline_contracts.surrogates import replace_lone_surrogates

_decode = msgspec.json.Decoder(SentEvents).decode
_decode_event = msgspec.json.Decoder(SentEvent).decode
_STRING = "must be a string"
_EXPECTED = {
    "id": "must be a UUID",
    "type": "must be one of pageview, event",
    "path": "must be a string of at most 2048 characters",
    "occurred_at": "must be an RFC 3339 date-time with its offset, like 2026-01-31T12:00:00.000Z",
    "properties": f"must be an object of at most {MAX_PROPERTIES} properties",
}
_INVALID_PREFIX: Final = "invalid_"
_list_faults = make_fault_lister(SentEvent, _EXPECTED, _STRING)


class _RawEvents(Struct, gc=False):
    events: list[Raw]


_split = msgspec.json.Decoder(_RawEvents).decode


class DecodedEvents(NamedTuple):
    """The valid events of a request, and the errors of the others."""

    valid: list[SentEvent]
    invalid: Mapping[str, int] = {}
    """Events to drop, by reason: `invalid_` and the first field at fault, or `invalid_event`."""
    faults: Sequence[FieldError] = ()


def decode_events(body: bytes) -> DecodedEvents:
    """Return the events in the body. An invalid event does not affect the others.

    Raises `InvalidInput` for a body that is not JSON, or has no list of 1 to 20 events.
    """
    try:
        return DecodedEvents(_decode(body).events)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return _decode_one_by_one(replace_lone_surrogates(body))


def _decode_one_by_one(body: bytes) -> DecodedEvents:
    valid: list[SentEvent] = []
    invalid: Counter[str] = Counter()
    faults: list[FieldError] = []
    for index, raw in enumerate(_split_events(body)):
        try:
            valid.append(_decode_one(raw))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            path = f"events[{index}]"
            event_faults = _list_event_faults(path, bytes(raw)) or [FieldError(path, str(error))]
            first_field = event_faults[0].field.removeprefix(path).removeprefix(".")
            invalid[_INVALID_PREFIX + (first_field or "event")] += 1
            faults += event_faults
    return DecodedEvents(valid, invalid, faults[:MAX_FIELD_ERRORS])


def _decode_one(raw: Raw) -> SentEvent:
    try:
        return _decode_event(raw)
    except msgspec.DecodeError:
        replaced = replace_leap_second(bytes(raw), "occurred_at")
        if replaced is None:
            raise
        return _decode_event(replaced)


def _split_events(body: bytes) -> list[Raw]:
    try:
        events = _split(body).events
    except msgspec.ValidationError as error:
        raise refuse_events([FieldError("events", "is required: an array of events")]) from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise refuse_events([FieldError("", f"must be a JSON object: {error}")]) from error
    if not 1 <= len(events) <= MAX_EVENTS:
        raise refuse_events([FieldError("events", f"must have 1 to {MAX_EVENTS} items")])
    return events


def refuse_events(faults: Sequence[FieldError]) -> InvalidInput:
    """Return the problem for a body of which nothing is stored."""
    return InvalidInput("No event was stored. Fix the fields listed below.", errors=list(faults))


def _list_event_faults(path: str, raw: bytes) -> list[FieldError]:
    try:
        return _list_faults(raw, f"{path}.")
    except NotAnObject:
        return [FieldError(path, "must be an object")]

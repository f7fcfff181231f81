"""Decode the body of `POST /v1/ingest`."""

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ingest_edge.accelerator import Accelerator
from ingest_edge.decoders.raw_events import TooManyEvents, split_batch, split_events
from ingest_edge.decoders.telemetry_faults import list_faults
from ingest_edge.decoders.utf8 import find_invalid_byte
from ingest_edge.limits import Limits
from pipeline_contracts.errors import FieldError, InvalidInput, PayloadTooLarge, Problem
from pipeline_contracts.leap_seconds import replace_leap_second
from pipeline_contracts.surrogates import replace_lone_surrogates
from pipeline_contracts.telemetry import TelemetryBatch

_LEAP_SECOND = b":60"


class _RawBatch(msgspec.Struct, gc=False):
    events: Raw
    batch_id: Raw | UnsetType = UNSET


_decode = msgspec.json.Decoder(TelemetryBatch).decode
_decode_raw = msgspec.json.Decoder(_RawBatch).decode


def read_batch(body: bytes, limits: Limits, accelerator: Accelerator | None) -> tuple[str, int, bytes]:
    """Return the ID of the valid batch in `body`, its number of events, and the body to store. Raises as
    `decode_batch` does."""
    if accelerator is not None:
        found = accelerator.validate_batch(body, limits.event_bytes, limits.batch_events)
        if found is not None:
            return *found, body
    # The decoded events are not kept: only the body is stored.
    batch, body = decode_batch(body, limits)
    return batch.batch_id, len(batch.events), body


def decode_batch(body: bytes, limits: Limits) -> tuple[TelemetryBatch, bytes]:
    """Return the valid batch in `body`, and the body to store: `body` itself, unless lone surrogates or leap seconds
    had to be replaced.

    Raises `InvalidInput` that lists up to 50 invalid fields, and `PayloadTooLarge` for too many events or a large one.
    """
    try:
        return _decode_whole(body, limits), body
    except InvalidInput:
        repaired = replace_lone_surrogates(body)
        repaired = replace_leap_seconds(repaired, "timestamp", limits.batch_events) or repaired
        if repaired is body:
            raise
    return _decode_whole(repaired, limits), repaired


def _decode_whole(body: bytes, limits: Limits) -> TelemetryBatch:
    try:
        if not body.isascii() and (invalid := find_invalid_byte(body)) is not None:
            raise _refused("", f"is not valid UTF-8 (byte {invalid})")
        if len(body) > limits.event_bytes:
            # Before events are built: a large body may contain far more of them than a batch may have.
            _check_sizes(body, limits)
        batch = _decode(body)
    except msgspec.ValidationError as error:
        _check_sizes(body, limits)
        raise _explain(body, str(error), limits) from error
    except RecursionError as error:
        raise _refused("", "is nested too deeply") from error
    except msgspec.DecodeError as error:
        raise _refused("", f"is not valid JSON: {error}") from error
    events = batch.events
    if not events:
        raise _refused("events", "must have at least 1 item")
    if len(events) > limits.batch_events:
        raise _too_many(limits)
    return batch


def _check_sizes(body: bytes, limits: Limits) -> None:
    try:
        events = split_batch(body, limits.batch_events)
    except TooManyEvents:
        raise _too_many(limits) from None
    except (msgspec.DecodeError, RecursionError):
        # The caller decodes the body and reports the error.
        return
    for index, event in enumerate(events):
        if len(memoryview(event)) > limits.event_bytes:
            raise PayloadTooLarge(f"events[{index}] is over {limits.event_bytes} bytes.")


def _too_many(limits: Limits) -> PayloadTooLarge:
    return PayloadTooLarge(f"The batch has more than {limits.batch_events} events. Send smaller batches.")


def _refused(field: str, message: str) -> InvalidInput:
    subject = field or "The body"
    return InvalidInput(f"{subject} {message}.", errors=[FieldError(field, message)])


def _explain(body: bytes, first: str, limits: Limits) -> Problem:
    try:
        errors = list_faults(body, limits.batch_events) or [FieldError("", first)]
    except TooManyEvents:
        return _too_many(limits)
    return InvalidInput(
        "The batch was not stored. Fix the fields listed below and send it again.", errors=errors
    )


def replace_leap_seconds(body: bytes, name: str, max_events: int) -> bytes | None:
    """Return the body with leap seconds in the member `name` of its events replaced by the following second.

    None if there are none, or more than `max_events` events. Only `batch_id` and `events` of the body remain.
    """
    if _LEAP_SECOND not in body:
        return None
    try:
        batch = _decode_raw(body)
        events = [bytes(event) for event in split_events(batch.events, max_events)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TooManyEvents):
        return None
    replaced = [replace_leap_second(event, name) for event in events]
    if not any(replaced):
        return None
    batch_id = b"" if batch.batch_id is UNSET else b'"batch_id":%b,' % bytes(batch.batch_id)
    pairs = zip(replaced, events, strict=True)
    return b'{%b"events":[%b]}' % (batch_id, b",".join(new or event for new, event in pairs))

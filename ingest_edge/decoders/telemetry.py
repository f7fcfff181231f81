"""Decodes the body of `POST /v1/ingest`."""

import msgspec

from ingest_edge.decoders.leap_seconds import replace_leap_seconds
from ingest_edge.decoders.raw_events import TooManyEvents, split_batch
from ingest_edge.decoders.telemetry_faults import list_faults
from ingest_edge.decoders.utf8 import first_bad_byte
from ingest_edge.limits import Limits
from pipeline_contracts.errors import FieldError, InvalidInput, PayloadTooLarge, Problem
from pipeline_contracts.surrogates import replace_lone_surrogates
from pipeline_contracts.telemetry import TelemetryBatch

_decode = msgspec.json.Decoder(TelemetryBatch).decode


def decode_batch(body: bytes, limits: Limits) -> tuple[TelemetryBatch, bytes]:
    """Return the batch in `body`, all of it valid, and the body to store: without lone surrogates and leap
    seconds, and `body` itself where there is none.

    Raises `InvalidInput` that lists the fields at fault, up to
    50, and `PayloadTooLarge` for too many events or one too large.
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
        if not body.isascii() and (bad := first_bad_byte(body)) is not None:
            raise _refused("", f"is not valid UTF-8 (byte {bad})")
        if len(body) > limits.event_bytes:
            # Before events are built: a large body may hold far more of them than a batch may.
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
        # What is wrong is told by those who decode it for good.
        return
    for index, event in enumerate(events):
        if len(memoryview(event)) > limits.event_bytes:
            raise PayloadTooLarge(f"events[{index}] is over {limits.event_bytes} bytes.")


def _too_many(limits: Limits) -> PayloadTooLarge:
    return PayloadTooLarge(f"The batch has more than {limits.batch_events} events. Send smaller batches.")


def _refused(field: str, message: str) -> InvalidInput:
    where = field or "The body"
    return InvalidInput(f"{where} {message}.", errors=[FieldError(field, message)])


def _explain(body: bytes, first: str, limits: Limits) -> Problem:
    try:
        errors = list_faults(body, limits.batch_events) or [FieldError("", first)]
    except TooManyEvents:
        return _too_many(limits)
    return InvalidInput("The batch was not stored. Mend the fields below and send it again.", errors=errors)

"""Validates OTLP bodies in JSON without an edge around."""

import msgspec

from ingest_edge.limits import Limits
from ingest_edge.otlp.accept import _SIGNALS, _validate_json
from ingest_edge.otlp.validate_records import Verdict


def judge_json(signal: str, body: bytes, limits: Limits) -> tuple[Verdict, bytes]:
    """Return the verdict on a body of `traces`, `logs` or `metrics`, and the body that the log would get."""
    decoder = _SIGNALS[f"v1/{signal}"].decoder
    decoded = decoder.decode_sent(body)
    if isinstance(decoded, msgspec.DecodeError):
        decoded = decoder.decode_repaired(body, decoded, limits)
    return _validate_json(_SIGNALS[f"v1/{signal}"], decoded, limits)

"""Compares the accelerator with Python's decoders."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import msgspec

from ingest_edge.accelerator import Accelerator
from ingest_edge.decoders.telemetry import decode_batch
from ingest_edge.limits import Limits
from ingest_edge.otlp import protobuf
from ingest_edge.otlp.accelerated import json_counters, protobuf_counters
from ingest_edge.otlp.accept import _SIGNALS, _validate_json
from pipeline_contracts.errors import Problem
from pipeline_contracts.settings import Settings

KINDS = (
    "ingest",
    "traces json",
    "logs json",
    "metrics json",
    "traces protobuf",
    "logs protobuf",
    "metrics protobuf",
)
"""The kinds of bodies. The accelerator has one function for each."""

DEFAULT_LIMITS = Limits.from_settings(Settings())
NARROW_LIMITS = replace(DEFAULT_LIMITS, event_bytes=400, batch_events=3, expanded_bytes=30_000)
"""Limits that small bodies exceed too."""

Result = tuple[str, int] | int | None
"""(batch ID, number of events) or the number of records of a body that is valid and stored as it is; otherwise None."""


class Disagreement(AssertionError):
    """The accelerator accepts a body that the decoders refuse, or count differently."""


class Comparison(NamedTuple):
    """The two validators of bodies of one kind."""

    kind: str
    accelerated: Callable[[bytes], Result]
    reference: Callable[[bytes], Result]

    def compare(self, body: bytes) -> bool:
        """Return True if the accelerator accepts the body. Raises `Disagreement`."""
        result = self.accelerated(body)
        if result is None:
            return False
        expected = self.reference(body)
        if result != expected:
            raise Disagreement(f"{self.kind}: {result} by the accelerator, {expected} by Python: {body!r}")
        return True


def make_comparison(accelerator: Accelerator, kind: str, limits: Limits = DEFAULT_LIMITS) -> Comparison:
    """Return the comparison for bodies of this kind."""
    if kind == "ingest":
        return Comparison(
            kind,
            lambda body: accelerator.validate_batch(body, limits.event_bytes, limits.batch_events),
            lambda body: _reference_batch(body, limits),
        )
    signal, coding = kind.split()
    path = f"v1/{signal}"
    if coding == "json":
        counters = json_counters(accelerator, limits)
        return Comparison(kind, counters[path], lambda body: _reference_json(path, body, limits))
    counters = protobuf_counters(accelerator, limits)
    return Comparison(kind, counters[path], lambda body: _reference_protobuf(path, body, limits))


def _reference_batch(body: bytes, limits: Limits) -> Result:
    try:
        batch, stored = decode_batch(body, limits)
    except Problem:
        return None
    return (batch.batch_id, len(batch.events)) if stored is body else None


def _reference_json(path: str, body: bytes, limits: Limits) -> Result:
    signal = _SIGNALS[path]
    try:
        decoded = signal.decoder.decode_sent(body)
        if isinstance(decoded, msgspec.DecodeError):
            return None
        verdict, stored = _validate_json(signal, decoded, limits)
    except Problem:
        return None
    return verdict.accepted if stored is body and not verdict.rejections else None


def _reference_protobuf(path: str, body: bytes, limits: Limits) -> Result:
    try:
        verdict = protobuf.validate(path, body, limits)
    except Problem:
        return None
    return verdict.accepted if not verdict.rejections else None

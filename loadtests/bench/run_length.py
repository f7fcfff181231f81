"""Lengths of the measurements."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunLength:
    """Seconds and numbers of events."""

    warm_up: float
    seconds: float
    informative_seconds: float
    """Seconds for figures without a target."""
    consumer_events: int
    whole_events: int
    idle_seconds: float
    """Seconds between readiness and the measurement of idle memory."""
    receipt_seconds: float
    telemetry_events: int
    """Telemetry events for the reads; the same numbers of spans, log records and data points are stored too."""
    telemetry_reads: int
    """Number of requests for each read of telemetry."""


FULL = RunLength(
    warm_up=2.0,
    seconds=10.0,
    informative_seconds=6.0,
    consumer_events=400_000,
    whole_events=1_000_000,
    idle_seconds=10.0,
    receipt_seconds=10.0,
    telemetry_events=50_000_000,
    telemetry_reads=20,
)
QUICK = RunLength(
    warm_up=0.5,
    seconds=1.5,
    informative_seconds=1.0,
    consumer_events=100_000,
    whole_events=200_000,
    idle_seconds=2.0,
    receipt_seconds=2.0,
    telemetry_events=1_000_000,
    telemetry_reads=5,
)

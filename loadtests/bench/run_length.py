"""Says how long measurements run."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunLength:
    """How many seconds measurements run, and how many events they use."""

    warm_up: float
    seconds: float
    informative_seconds: float
    """Seconds for figures that have no target."""
    consumer_events: int
    whole_events: int
    idle_seconds: float
    """Seconds from readiness to the measurement of idle memory."""
    receipt_seconds: float
    telemetry_events: int
    """Number of telemetry events for the reads. As many spans, log records and data points are stored too."""
    telemetry_reads: int
    """Number of requests for each kind of read of telemetry."""


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

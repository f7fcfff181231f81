"""Judges the load during one operation."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from loadtests.bench.figures import percentile
from loadtests.switching.call import Call
from loadtests.switching.operations import Expected


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one operation, which is a row of the table. Latencies are in milliseconds. They leave out
    streams, and the sleep of slow requests."""

    operation: str
    seconds: float
    """Seconds from the request for the operation to its final status."""
    requests: int
    failures: Counter[str]
    in_flight: int
    """Number of POSTs and streams that were in flight in a killed process. It is unknown whether they were
    processed."""
    repeated: int
    """Number of GETs that were sent again, because the server closed a kept connection at that moment."""
    p50: float
    p99: float
    slowest: float
    cpu_us: float
    """CPU time of the platform's process per request, in microseconds."""
    note: str

    @property
    def failed(self) -> int:
        """Return the number of failed requests."""
        return sum(self.failures.values())


def judge(
    operation: str, expected: Expected, calls: Sequence[Call], seconds: float, cpu_seconds: float
) -> Verdict:
    """Check every request of the load, and return the verdict."""
    failures: Counter[str] = Counter()
    in_flight = 0
    offset = time.time() - time.perf_counter()
    for call in calls:
        fault = _fault(call, expected, offset)
        if fault is None:
            continue
        if call.failure is not None and _was_in_flight(call, expected):
            in_flight += 1
        else:
            failures[f"{call.kind}: {fault}"] += 1
    latencies = [1000 * call.latency for call in calls if call.kind != "stream"]
    processes = len({call.port for call in calls if call.port is not None})
    note = f"{expected.note}; " if expected.note else ""
    return Verdict(
        operation,
        seconds,
        len(calls),
        failures,
        in_flight,
        sum(call.is_repeated for call in calls),
        percentile(latencies, 0.5),
        percentile(latencies, 0.99),
        max(latencies),
        1e6 * cpu_seconds / len(calls),
        f"{note}{processes} process{'es' if processes > 1 else ''} answered",
    )


def _fault(call: Call, expected: Expected, offset: float) -> str | None:
    if call.failure is not None:
        return call.failure
    if call.version not in (expected.before, expected.after):
        return f"answered by {call.version}, which is not live"
    is_late = expected.since is not None and call.sent + offset > expected.since.timestamp()
    if is_late and call.version != expected.after:
        return f"answered by {call.version} after {expected.after} had taken its place"
    return None


def _was_in_flight(call: Call, expected: Expected) -> bool:
    """Return True if a killed process may have processed the request. Return False for a GET: it is retried on
    another process, and must not fail."""
    return call.kind != "GET" and any(
        call.sent <= end and call.ended >= killed for killed, end in expected.kills
    )

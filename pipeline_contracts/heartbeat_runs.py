"""One run of a heartbeat's job.

A run keeps the first time of each kind of signal, so that the order and repetition of signals do not change the result.
Times are times of receipt at the edge, in milliseconds since 1970.
"""

from dataclasses import dataclass
from typing import Literal

from pipeline_contracts.monitors import Signal

Outcome = Literal["open", "succeeded", "failed", "timed out"]


@dataclass(slots=True)
class Run:
    """One run of a job, as far as its signals describe it."""

    run_id: str
    first_ms: int
    started_ms: int | None = None
    succeeded_ms: int | None = None
    failed_ms: int | None = None
    timed_out_ms: int | None = None
    exit_status: int | None = None
    output: str | None = None
    """Output of the job, from the body of a ping."""

    @property
    def outcome(self) -> Outcome:
        """Return the outcome. Failure outweighs success, and both outweigh an earlier timeout."""
        if self.failed_ms is not None:
            return "failed"
        if self.succeeded_ms is not None:
            return "succeeded"
        return "open" if self.timed_out_ms is None else "timed out"

    @property
    def ended_ms(self) -> int | None:
        """Return the time of the signal or timeout that ended the run; None while the run is open."""
        if self.failed_ms is not None:
            return self.failed_ms
        return self.timed_out_ms if self.succeeded_ms is None else self.succeeded_ms

    @property
    def duration_ms(self) -> int | None:
        """Return the time from start to end; None without either, or if the start was received after the end."""
        if self.started_ms is None or self.ended_ms is None or self.ended_ms < self.started_ms:
            return None
        return self.ended_ms - self.started_ms

    def apply(self, signal: Signal, received_ms: int) -> bool:
        """Add a signal; return whether it changed the run."""
        before = (self.first_ms, self.started_ms, self.succeeded_ms, self.failed_ms)
        self.first_ms = min(self.first_ms, received_ms)
        match signal:
            case "start":
                self.started_ms = earlier(self.started_ms, received_ms)
            case "success":
                self.succeeded_ms = earlier(self.succeeded_ms, received_ms)
            case "failure":
                self.failed_ms = earlier(self.failed_ms, received_ms)
        return before != (self.first_ms, self.started_ms, self.succeeded_ms, self.failed_ms)


def earlier(known: int | None, other: int) -> int:
    """Return the earlier of two times; `known` may be missing."""
    return other if known is None else min(known, other)


def record_output(run: Run, signal: Signal, exit_status: int | None, output: str | None) -> None:
    """Store the exit status and output of a signal that changed the run.

    The output of a failure outweighs that of a success, which outweighs that of a start.
    """
    if signal == "success" and run.failed_ms is not None:
        return
    if exit_status is not None:
        run.exit_status = exit_status
    if output is not None and (run.output is None or signal != "start"):
        run.output = output

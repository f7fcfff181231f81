"""What a heartbeat's signals and the passing of time make of it. Pure: the clock is an argument.

Each time is milliseconds since 1970: signals count from their receipt at the edge. A run is told by the ID that the job
gave it, and keeps the first time of each kind of signal: whatever order signals are applied in, and however often, the
run ends up the same.

State, when nothing else is said: `new` until the first signal; `running` while a run is open; `late` once a run is due;
`down` when it has not begun `grace_ms` later, or when `failures_before_down` runs in a row have failed, run into
`max_runtime_ms` or not begun; only a success ends `down`. `paused` is an operator's word, and `unknown` the scan's,
while our own pipeline is behind.
"""

from dataclasses import dataclass, field
from typing import Literal

from pipeline_contracts.monitors import Signal
from pipeline_contracts.schedules import Schedule, next_due

State = Literal["new", "running", "up", "late", "down", "paused", "unknown"]
Outcome = Literal["open", "succeeded", "failed", "timed out"]


@dataclass(slots=True)
class Run:
    """One run of a job, as far as it was told of."""

    run_id: str
    first_ms: int
    started_ms: int | None = None
    succeeded_ms: int | None = None
    failed_ms: int | None = None
    timed_out_ms: int | None = None

    @property
    def outcome(self) -> Outcome:
        """A run that has said both has failed; one that says how it ended after its time was up has ended so."""
        if self.failed_ms is not None:
            return "failed"
        if self.succeeded_ms is not None:
            return "succeeded"
        return "open" if self.timed_out_ms is None else "timed out"

    @property
    def ended_ms(self) -> int | None:
        """When it ended, by the signal that counts; None while it is open."""
        if self.failed_ms is not None:
            return self.failed_ms
        return self.timed_out_ms if self.succeeded_ms is None else self.succeeded_ms

    @property
    def duration_ms(self) -> int | None:
        """From start to end; None without one of them, or if the start came in last."""
        if self.started_ms is None or self.ended_ms is None or self.ended_ms < self.started_ms:
            return None
        return self.ended_ms - self.started_ms

    def take(self, signal: Signal, received_ms: int) -> bool:
        """Add a signal; whether it told something new."""
        before = (self.first_ms, self.started_ms, self.succeeded_ms, self.failed_ms)
        self.first_ms = min(self.first_ms, received_ms)
        match signal:
            case "start":
                self.started_ms = _earlier(self.started_ms, received_ms)
            case "success":
                self.succeeded_ms = _earlier(self.succeeded_ms, received_ms)
            case "failure":
                self.failed_ms = _earlier(self.failed_ms, received_ms)
        return before != (self.first_ms, self.started_ms, self.succeeded_ms, self.failed_ms)


def _earlier(known: int | None, other: int) -> int:
    return other if known is None else min(known, other)


@dataclass(slots=True)
class Heartbeat:
    """A heartbeat with what is configured and where it stands."""

    heartbeat_id: int
    environment_id: str
    schedule: Schedule
    grace_ms: int
    max_runtime_ms: int
    failures_before_down: int
    paused: bool
    state: State
    since_ms: int
    due_ms: int | None
    deadline_ms: int | None
    """When the state changes by itself unless a signal comes; None: never."""
    last_signal_ms: int | None
    last_success_ms: int | None
    last_end_ms: int | None
    failures_in_row: int
    open_runs: int
    oldest_start_ms: int | None
    version: int
    recount: bool = field(default=False)
    """Whether the counts have to be made anew from all runs: an end came that is older than others."""


def take_signal(heartbeat: Heartbeat, run: Run, signal: Signal, received_ms: int) -> bool:
    """Apply one signal to the run and to the heartbeat's counts; whether it told something new.

    `settle` has to follow once all signals are applied.
    """
    # A run without any signal yet is not open: it does not exist.
    was_open = run.started_ms is not None and run.outcome == "open"
    outcome, ended_ms = run.outcome, run.ended_ms
    if not run.take(signal, received_ms):
        return False
    heartbeat.last_signal_ms = max(heartbeat.last_signal_ms or 0, received_ms)
    if run.outcome == "open":
        if not was_open:
            heartbeat.open_runs += 1
        if heartbeat.oldest_start_ms is None or received_ms < heartbeat.oldest_start_ms:
            heartbeat.oldest_start_ms = received_ms
        return True
    if was_open:
        _close(heartbeat, run)
    if (run.outcome, run.ended_ms) != (outcome, ended_ms):
        if ended_ms is not None:
            # It had ended otherwise: that end has been counted.
            heartbeat.recount = True
        _count_end(heartbeat, run)
    return True


def _close(heartbeat: Heartbeat, run: Run) -> None:
    heartbeat.open_runs -= 1
    if heartbeat.open_runs == 0:
        heartbeat.oldest_start_ms = None
    elif run.started_ms == heartbeat.oldest_start_ms:
        heartbeat.recount = True


def _count_end(heartbeat: Heartbeat, run: Run) -> None:
    ended = run.ended_ms
    assert ended is not None
    success = heartbeat.last_success_ms
    if run.outcome == "succeeded":
        if success is None or ended > success:
            if heartbeat.last_end_ms is not None and ended < heartbeat.last_end_ms:
                # Failures may have come after it.
                heartbeat.recount = True
            heartbeat.last_success_ms = ended
            heartbeat.failures_in_row = 0
    elif success is None or ended > success:
        heartbeat.failures_in_row += 1
    heartbeat.last_end_ms = max(heartbeat.last_end_ms or 0, ended)


def recount(heartbeat: Heartbeat, runs: list[Run]) -> None:
    """Make the counts anew from all runs that are kept, and the state from them."""
    successes = [run.succeeded_ms for run in runs if run.outcome == "succeeded"]
    heartbeat.last_success_ms = max((ms for ms in successes if ms is not None), default=None)
    ends = [(run.outcome, run.ended_ms) for run in runs if run.ended_ms is not None]
    success = heartbeat.last_success_ms
    heartbeat.failures_in_row = sum(
        outcome != "succeeded" and (success is None or ended > success) for outcome, ended in ends
    )
    heartbeat.last_end_ms = max((ended for _, ended in ends), default=None)
    _count_open(heartbeat, runs)
    heartbeat.recount = False
    settle(heartbeat, heartbeat.last_signal_ms or heartbeat.since_ms)


def _count_open(heartbeat: Heartbeat, runs: list[Run]) -> None:
    starts = [run.started_ms for run in runs if run.outcome == "open" and run.started_ms is not None]
    heartbeat.open_runs = len(starts)
    heartbeat.oldest_start_ms = min(starts, default=None)


def settle(heartbeat: Heartbeat, at_ms: int) -> None:
    """Work the state out after signals; a change counts since `at_ms`."""
    if heartbeat.paused:
        _become(heartbeat, "paused", at_ms, None, None)
        return
    if heartbeat.last_signal_ms is None:
        _become(heartbeat, "new", at_ms, None, None)
        return
    timeout_ms = _timeout_ms(heartbeat)
    if heartbeat.failures_in_row >= heartbeat.failures_before_down:
        _become(heartbeat, "down", at_ms, None, timeout_ms)
    elif timeout_ms is not None:
        _become(heartbeat, "running", at_ms, None, timeout_ms)
    else:
        due_ms = next_due(heartbeat.schedule, max(heartbeat.last_signal_ms, heartbeat.last_end_ms or 0))
        _become(heartbeat, "up", at_ms, due_ms, due_ms)


def _timeout_ms(heartbeat: Heartbeat) -> int | None:
    """When the oldest open run has run for too long."""
    if heartbeat.oldest_start_ms is None:
        return None
    return heartbeat.oldest_start_ms + heartbeat.max_runtime_ms


def _become(
    heartbeat: Heartbeat, state: State, at_ms: int, due_ms: int | None, deadline_ms: int | None
) -> None:
    if state != heartbeat.state:
        heartbeat.state = state
        heartbeat.since_ms = at_ms
    heartbeat.due_ms = due_ms
    heartbeat.deadline_ms = deadline_ms


def pass_deadlines(heartbeat: Heartbeat, open_runs: list[Run], clock_ms: int) -> list[Run]:
    """Apply what has become due by the clock; gives the runs that have run into their time limit."""
    timed_out = []
    while heartbeat.deadline_ms is not None and heartbeat.deadline_ms <= clock_ms:
        deadline_ms = heartbeat.deadline_ms
        if heartbeat.open_runs:
            timed_out += _time_out(heartbeat, open_runs, deadline_ms)
            settle(heartbeat, deadline_ms)
        else:
            _pass_due(heartbeat, deadline_ms)
    return timed_out


def _time_out(heartbeat: Heartbeat, open_runs: list[Run], at_ms: int) -> list[Run]:
    timed_out = []
    for run in open_runs:
        if run.outcome == "open" and run.started_ms is not None:
            limit_ms = run.started_ms + heartbeat.max_runtime_ms
            if limit_ms <= at_ms:
                run.timed_out_ms = limit_ms
                timed_out.append(run)
                _count_end(heartbeat, run)
    _count_open(heartbeat, open_runs)
    return timed_out


def _pass_due(heartbeat: Heartbeat, deadline_ms: int) -> None:
    due_ms = heartbeat.due_ms
    if due_ms is None:
        heartbeat.deadline_ms = None
    elif deadline_ms < due_ms + heartbeat.grace_ms:
        _become(heartbeat, "late", deadline_ms, due_ms, due_ms + heartbeat.grace_ms)
    else:
        heartbeat.failures_in_row += 1
        if heartbeat.failures_in_row >= heartbeat.failures_before_down:
            _become(heartbeat, "down", deadline_ms, None, None)
        else:
            due_ms = next_due(heartbeat.schedule, due_ms)
            _become(heartbeat, "late", deadline_ms, due_ms, due_ms + heartbeat.grace_ms)

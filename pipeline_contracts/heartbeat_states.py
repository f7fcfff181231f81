"""What a heartbeat's signals and the passing of time make of it. Pure: the clock is an argument.

Each time is milliseconds since 1970: signals count from their receipt at the edge. A run is told by the ID that the job
gave it, and keeps the first time of each kind of signal: whatever order signals are applied in, and however often, the
run ends up the same.

State, when nothing else is said: `new` until the first signal; `running` while a run is open; `late` once a run is due;
`down` when it has not begun `grace_ms` later, or when `failures_before_down` runs in a row have failed, run into
`max_runtime_ms` or not begun; only a success ends `down`. `paused` is an operator's word, and `unknown` the scan's,
while our own pipeline is behind.

A run that was judged missed and whose signal arrives after all, received before the deadline, was not missed: the
judgement is withdrawn. What was received before a heartbeat was resumed is recorded and not judged.
"""

from dataclasses import dataclass, field
from typing import Literal

from pipeline_contracts.heartbeat_runs import Run, earlier
from pipeline_contracts.monitors import Signal
from pipeline_contracts.ping_pairs import PingPairs
from pipeline_contracts.schedules import Schedule, next_due

State = Literal["new", "running", "up", "late", "down", "paused", "unknown"]


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
    judged_from_ms: int | None = None
    """When it was last resumed: signals received until then do not change the state. None: it never was paused."""
    missed_ms: list[int] = field(default_factory=list)
    """Failures of which no run tells, by their times: deadlines that passed without a run, and ends of failed runs that
    were pruned. Only the newest are kept, as many as make the heartbeat `down`."""
    pings: PingPairs | None = None
    """State that pairs pings without a run ID; None until the first one."""
    recount: bool = field(default=False)
    """Whether the counts have to be made anew from all runs: an end came that is older than others."""


def take_signal(heartbeat: Heartbeat, run: Run, signal: Signal, received_ms: int) -> bool:
    """Apply one signal to the run and to the heartbeat's counts; whether it told something new.

    `settle` has to follow before the next signal: it works out what is due.
    """
    was_open, started_ms = _is_waited_for(heartbeat, run), run.started_ms
    outcome, ended_ms = run.outcome, run.ended_ms
    if not run.take(signal, received_ms):
        return False
    hear(heartbeat, received_ms)
    is_open = _is_waited_for(heartbeat, run)
    if was_open and not is_open:
        _close(heartbeat, started_ms)
    if is_open:
        heartbeat.open_runs += not was_open
        heartbeat.oldest_start_ms = earlier(heartbeat.oldest_start_ms, run.started_ms or received_ms)
    elif (now := run.outcome) != "open" and (now != outcome or run.ended_ms != ended_ms):
        if ended_ms is not None:
            # It had ended otherwise: that end has been counted.
            heartbeat.recount = True
        _count_end(heartbeat, run)
    return True


def _is_waited_for(heartbeat: Heartbeat, run: Run) -> bool:
    """Whether the run is open and began after the heartbeat was resumed: an older one is not timed."""
    if run.started_ms is None or run.outcome != "open":
        return False
    return heartbeat.judged_from_ms is None or run.started_ms > heartbeat.judged_from_ms


def hear(heartbeat: Heartbeat, received_ms: int) -> None:
    """Note that a signal came. It withdraws what was judged missed later than it, while it was on its way.

    After the newest signal that is everything: the due time is worked out anew, and the next scan finds what is missed
    by it. After an older one it is what was not due yet by that signal.
    """
    if received_ms > (heartbeat.last_signal_ms or 0):
        _pass_dues(heartbeat, received_ms)
        heartbeat.last_signal_ms = received_ms
        if heartbeat.missed_ms:
            _withdraw(heartbeat, received_ms, None)
    elif heartbeat.missed_ms:
        due_ms = next_due(heartbeat.schedule, received_ms)
        _withdraw(heartbeat, received_ms, due_ms + heartbeat.grace_ms)


def _pass_dues(heartbeat: Heartbeat, received_ms: int) -> None:
    """Count runs as missed that were due before the signal, even if no scan has run since."""
    while not heartbeat.open_runs and not heartbeat.recount:
        if heartbeat.deadline_ms is None or heartbeat.deadline_ms > received_ms:
            return
        _pass_due(heartbeat, heartbeat.deadline_ms)


def _withdraw(heartbeat: Heartbeat, after_ms: int, before_ms: int | None) -> None:
    left = [ms for ms in heartbeat.missed_ms if ms <= after_ms or (before_ms is not None and ms >= before_ms)]
    # One by one: several failures may have the same time, as after an upgrade.
    for ms in heartbeat.missed_ms:
        heartbeat.failures_in_row -= _counts(heartbeat, ms)
    for ms in left:
        heartbeat.failures_in_row += _counts(heartbeat, ms)
    heartbeat.missed_ms = left


def _close(heartbeat: Heartbeat, started_ms: int | None) -> None:
    heartbeat.open_runs -= 1
    if heartbeat.open_runs == 0:
        heartbeat.oldest_start_ms = None
    elif started_ms == heartbeat.oldest_start_ms:
        heartbeat.recount = True


def _counts(heartbeat: Heartbeat, failed_ms: int) -> bool:
    """Whether a failure at that time is in the row: later than the newest success, and than the last resume."""
    return failed_ms > max(heartbeat.last_success_ms or 0, heartbeat.judged_from_ms or 0)


def _count_end(heartbeat: Heartbeat, run: Run) -> None:
    ended = run.ended_ms
    assert ended is not None
    if run.outcome != "succeeded":
        heartbeat.failures_in_row += _counts(heartbeat, ended)
    elif ended > (heartbeat.last_success_ms or 0):
        if heartbeat.last_end_ms is not None and ended < heartbeat.last_end_ms:
            # Failures may have come after it.
            heartbeat.recount = True
        if _counts(heartbeat, ended):
            heartbeat.failures_in_row = sum(at_ms > ended for at_ms in heartbeat.missed_ms)
        heartbeat.last_success_ms = ended
    heartbeat.last_end_ms = max(heartbeat.last_end_ms or 0, ended)


def recount(heartbeat: Heartbeat, runs: list[Run]) -> None:
    """Make the counts anew from all runs that are kept and the failures without one, and the state from them."""
    successes = [run.succeeded_ms for run in runs if run.outcome == "succeeded"]
    heartbeat.last_success_ms = max((ms for ms in successes if ms is not None), default=None)
    ends = [(run.outcome, run.ended_ms) for run in runs if run.ended_ms is not None]
    failures = [ended for outcome, ended in ends if outcome != "succeeded"]
    heartbeat.failures_in_row = sum(_counts(heartbeat, at_ms) for at_ms in [*failures, *heartbeat.missed_ms])
    heartbeat.last_end_ms = max((ended for _, ended in ends), default=None)
    _count_open(heartbeat, runs)
    heartbeat.recount = False
    settle(heartbeat, heartbeat.last_signal_ms or heartbeat.since_ms)


def _count_open(heartbeat: Heartbeat, runs: list[Run]) -> None:
    starts = [run.started_ms for run in runs if run.started_ms is not None and _is_waited_for(heartbeat, run)]
    heartbeat.open_runs = len(starts)
    heartbeat.oldest_start_ms = min(starts, default=None)


def resume(heartbeat: Heartbeat, now_ms: int) -> None:
    """Judge a paused heartbeat again, from its next signal on: nothing that was before is a reason for an alarm."""
    heartbeat.paused = False
    heartbeat.judged_from_ms = now_ms
    heartbeat.failures_in_row = heartbeat.open_runs = 0
    heartbeat.oldest_start_ms = None
    heartbeat.missed_ms = []
    settle(heartbeat, now_ms)


def forget_runs(heartbeat: Heartbeat, runs: list[Run]) -> bool:
    """Keep the failures in the row of runs that are about to be pruned; whether there were any."""
    ends = [run.ended_ms for run in runs if run.outcome not in ("open", "succeeded")]
    counted = [ended for ended in ends if ended is not None and _counts(heartbeat, ended)]
    if counted:
        _keep_missed(heartbeat, counted)
    return bool(counted)


def _keep_missed(heartbeat: Heartbeat, failures: list[int]) -> None:
    heartbeat.missed_ms = sorted([*heartbeat.missed_ms, *failures])[-heartbeat.failures_before_down :]


def settle(heartbeat: Heartbeat, at_ms: int) -> None:
    """Work the state out after signals; a change counts since `at_ms`. Where a recount is due, that does it."""
    if heartbeat.recount:
        return
    if heartbeat.paused:
        _become(heartbeat, "paused", at_ms, None, None)
        return
    if (heartbeat.last_signal_ms or 0) <= (heartbeat.judged_from_ms or 0):
        _become(heartbeat, "new", at_ms, None, None)
        return
    timeout_ms = _timeout_ms(heartbeat)
    if heartbeat.failures_in_row >= heartbeat.failures_before_down:
        _become(heartbeat, "down", at_ms, None, timeout_ms)
    elif timeout_ms is not None:
        _become(heartbeat, "running", at_ms, None, timeout_ms)
    else:
        _await_next(heartbeat, at_ms)


def _await_next(heartbeat: Heartbeat, at_ms: int) -> None:
    """Up until the next run is due; late where some after the last signal were judged missed already."""
    due_ms = next_due(heartbeat.schedule, max(heartbeat.last_signal_ms or 0, heartbeat.last_end_ms or 0))
    if not heartbeat.missed_ms or due_ms + heartbeat.grace_ms not in heartbeat.missed_ms:
        _become(heartbeat, "up", at_ms, due_ms, due_ms)
        return
    while due_ms + heartbeat.grace_ms in heartbeat.missed_ms:
        due_ms = next_due(heartbeat.schedule, due_ms)
    _become(heartbeat, "late", at_ms, due_ms, due_ms + heartbeat.grace_ms)


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
        if run.started_ms is not None and _is_waited_for(heartbeat, run):
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
        _keep_missed(heartbeat, [deadline_ms])
        if heartbeat.failures_in_row >= heartbeat.failures_before_down:
            _become(heartbeat, "down", deadline_ms, None, None)
        else:
            due_ms = next_due(heartbeat.schedule, due_ms)
            _become(heartbeat, "late", deadline_ms, due_ms, due_ms + heartbeat.grace_ms)

"""The state machine of a heartbeat, driven by signals and by time. Pure: the clock is an argument.

Times are milliseconds since 1970; the time of a signal is its time of receipt at the edge. Signals with the same run ID
belong to one run (`heartbeat_runs`).

States: `new` until the first signal; `up` between runs; `running` while a run is open; `late` once a run is due;
`down` after `failures_before_down` failures in a row. A failure is a run that failed, exceeded `max_runtime_ms`, or did
not begin within `grace_ms` of its due time. Only a success ends `down`. An operator sets `paused`; the scan sets
`unknown` while the pipeline is behind, and after a gap in which Pharos may have missed signals (`blind_times`).

A missed run is no failure if its signal is processed later but was received before the deadline: the failure is
withdrawn. Signals received before a heartbeat was resumed are recorded, and do not change its state.
"""

from dataclasses import dataclass, field
from typing import Literal

from pipeline_contracts.blind_times import BlindTime, find_gap
from pipeline_contracts.heartbeat_runs import Run, earlier
from pipeline_contracts.monitors import Signal
from pipeline_contracts.ping_pairs import PingPairs
from pipeline_contracts.schedules import Schedule, next_due

State = Literal["new", "running", "up", "late", "down", "paused", "unknown"]


@dataclass(slots=True)
class Heartbeat:
    """Configuration and current state of a heartbeat."""

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
    """When the state changes unless a signal arrives; None: never."""
    last_signal_ms: int | None
    last_success_ms: int | None
    last_end_ms: int | None
    failures_in_row: int
    open_runs: int
    oldest_start_ms: int | None
    version: int
    judged_from_ms: int | None = None
    """Time of the last resume: signals received until then do not change the state. None: never paused."""
    missed_ms: list[int] = field(default_factory=list)
    """Times of failures without a stored run: deadlines that passed without a run, and ends of failed runs that were
    pruned. Only the newest `failures_before_down` are stored."""
    pings: PingPairs | None = None
    """State that pairs pings without a run ID; None until the first one."""
    needs_recount: bool = field(default=False)
    """True if the counts must be recomputed from all runs, because an end arrived out of order."""
    name: str = ""
    alerted: Literal["late", "down"] | None = None
    """The state of the last alert event; None: neither of the two."""
    blind: BlindTime | None = None
    """When signals of this heartbeat may have been missed; None: never."""


def apply_signal(
    heartbeat: Heartbeat, run: Run, signal: Signal, received_ms: int, intake_ms: int | None = None
) -> bool:
    """Apply one signal to the run and to the heartbeat's counts; return whether it changed the run.

    `intake_ms` as for `note_signal`. Call `update_state` before the next signal, to compute the due time.
    """
    was_open, started_ms = _is_timed(heartbeat, run), run.started_ms
    outcome, ended_ms = run.outcome, run.ended_ms
    if not run.apply(signal, received_ms):
        return False
    note_signal(heartbeat, received_ms, intake_ms)
    is_open = _is_timed(heartbeat, run)
    if was_open and not is_open:
        _close_run(heartbeat, started_ms)
    if is_open:
        heartbeat.open_runs += not was_open
        heartbeat.oldest_start_ms = earlier(heartbeat.oldest_start_ms, run.started_ms or received_ms)
    elif (now := run.outcome) != "open" and (now != outcome or run.ended_ms != ended_ms):
        if ended_ms is not None:
            # An earlier end of this run has been counted already.
            heartbeat.needs_recount = True
        _count_end(heartbeat, run)
    return True


def _is_timed(heartbeat: Heartbeat, run: Run) -> bool:
    """True if the run is open and began after the last resume. Older runs have no time limit."""
    if run.started_ms is None or run.outcome != "open":
        return False
    return heartbeat.judged_from_ms is None or run.started_ms > heartbeat.judged_from_ms


def note_signal(heartbeat: Heartbeat, received_ms: int, intake_ms: int | None = None) -> None:
    """Record the time of a signal, and withdraw misses that were counted for later times while it was in the pipeline.

    `intake_ms` is the time at which an edge last reported that it accepts signals; None if edges do not report. A
    signal long after that time may be the first one after a gap that is not known yet, because the report that ends the
    gap is elsewhere in the log. So no run in between is counted as missed.

    The newest signal withdraws all later misses: the due time is computed again, and the next scan finds the runs that
    are still missed. An older signal withdraws the misses before the next deadline after it.
    """
    if received_ms > (heartbeat.last_signal_ms or 0):
        gap = None if intake_ms is None else find_gap(intake_ms, received_ms, 0)
        _apply_deadlines_until(heartbeat, received_ms if gap is None else gap.from_ms)
        heartbeat.last_signal_ms = received_ms
        if heartbeat.missed_ms:
            _withdraw_misses(heartbeat, received_ms, None)
    elif heartbeat.missed_ms:
        due_ms = _due_after(heartbeat, received_ms)
        _withdraw_misses(heartbeat, received_ms, due_ms + heartbeat.grace_ms)


def _apply_deadlines_until(heartbeat: Heartbeat, until_ms: int) -> None:
    """Count runs as missed that were due before a signal, even if no scan has run since."""
    while not heartbeat.open_runs and not heartbeat.needs_recount:
        if heartbeat.deadline_ms is None or heartbeat.deadline_ms > until_ms:
            return
        _apply_deadline(heartbeat, heartbeat.deadline_ms)


def _withdraw_misses(heartbeat: Heartbeat, after_ms: int, before_ms: int | None) -> None:
    remaining = [
        ms for ms in heartbeat.missed_ms if ms <= after_ms or (before_ms is not None and ms >= before_ms)
    ]
    # One by one: several failures may have the same time, as after an upgrade.
    for ms in heartbeat.missed_ms:
        heartbeat.failures_in_row -= _is_in_row(heartbeat, ms)
    for ms in remaining:
        heartbeat.failures_in_row += _is_in_row(heartbeat, ms)
    heartbeat.missed_ms = remaining


def _close_run(heartbeat: Heartbeat, started_ms: int | None) -> None:
    heartbeat.open_runs -= 1
    if heartbeat.open_runs == 0:
        heartbeat.oldest_start_ms = None
    elif started_ms == heartbeat.oldest_start_ms:
        heartbeat.needs_recount = True


def _is_in_row(heartbeat: Heartbeat, failed_ms: int) -> bool:
    """True if a failure at this time is later than the newest success and the last resume."""
    return failed_ms > max(heartbeat.last_success_ms or 0, heartbeat.judged_from_ms or 0)


def _count_end(heartbeat: Heartbeat, run: Run) -> None:
    ended = run.ended_ms
    assert ended is not None
    if run.outcome != "succeeded":
        heartbeat.failures_in_row += _is_in_row(heartbeat, ended)
    elif ended > (heartbeat.last_success_ms or 0):
        if heartbeat.last_end_ms is not None and ended < heartbeat.last_end_ms:
            # Failures after this success may have been counted already.
            heartbeat.needs_recount = True
        if _is_in_row(heartbeat, ended):
            heartbeat.failures_in_row = sum(at_ms > ended for at_ms in heartbeat.missed_ms)
        heartbeat.last_success_ms = ended
    heartbeat.last_end_ms = max(heartbeat.last_end_ms or 0, ended)


def recount(heartbeat: Heartbeat, runs: list[Run]) -> None:
    """Recompute the counts and the state from all stored runs and the failures without a run."""
    successes = [run.succeeded_ms for run in runs if run.outcome == "succeeded"]
    heartbeat.last_success_ms = max((ms for ms in successes if ms is not None), default=None)
    ends = [(run.outcome, run.ended_ms) for run in runs if run.ended_ms is not None]
    failures = [ended for outcome, ended in ends if outcome != "succeeded"]
    heartbeat.failures_in_row = sum(
        _is_in_row(heartbeat, at_ms) for at_ms in [*failures, *heartbeat.missed_ms]
    )
    heartbeat.last_end_ms = max((ended for _, ended in ends), default=None)
    _count_open(heartbeat, runs)
    heartbeat.needs_recount = False
    update_state(heartbeat, heartbeat.last_signal_ms or heartbeat.since_ms)


def _count_open(heartbeat: Heartbeat, runs: list[Run]) -> None:
    starts = [run.started_ms for run in runs if run.started_ms is not None and _is_timed(heartbeat, run)]
    heartbeat.open_runs = len(starts)
    heartbeat.oldest_start_ms = min(starts, default=None)


def resume(heartbeat: Heartbeat, now_ms: int) -> None:
    """Resume a paused heartbeat: signals and failures from before do not change its state."""
    heartbeat.paused = False
    heartbeat.judged_from_ms = now_ms
    heartbeat.failures_in_row = heartbeat.open_runs = 0
    heartbeat.oldest_start_ms = None
    heartbeat.missed_ms = []
    update_state(heartbeat, now_ms)


def keep_failures(heartbeat: Heartbeat, runs: list[Run]) -> bool:
    """Keep the counted failures of runs that are about to be pruned; return whether there were any."""
    ends = [run.ended_ms for run in runs if run.outcome not in ("open", "succeeded")]
    counted = [ended for ended in ends if ended is not None and _is_in_row(heartbeat, ended)]
    if counted:
        _add_missed(heartbeat, counted)
    return bool(counted)


def _add_missed(heartbeat: Heartbeat, failures: list[int]) -> None:
    heartbeat.missed_ms = sorted([*heartbeat.missed_ms, *failures])[-heartbeat.failures_before_down :]


def update_state(heartbeat: Heartbeat, at_ms: int) -> None:
    """Compute the state after signals; a new state begins at `at_ms`. Does nothing if a recount is needed."""
    if heartbeat.needs_recount:
        return
    if heartbeat.paused:
        _set_state(heartbeat, "paused", at_ms, None, None)
        return
    if (heartbeat.last_signal_ms or 0) <= (heartbeat.judged_from_ms or 0):
        _set_state(heartbeat, "new", at_ms, None, None)
        return
    timeout_ms = _timeout_ms(heartbeat)
    if heartbeat.failures_in_row >= heartbeat.failures_before_down:
        _set_state(heartbeat, "down", at_ms, None, timeout_ms)
    elif timeout_ms is not None:
        _set_state(heartbeat, "running", at_ms, None, timeout_ms)
    else:
        _await_next(heartbeat, at_ms)


def _await_next(heartbeat: Heartbeat, at_ms: int) -> None:
    """Set `up` until the next run is due, or `late` if runs after the last signal were counted as missed already."""
    due_ms = _due_after(heartbeat, max(heartbeat.last_signal_ms or 0, heartbeat.last_end_ms or 0))
    if not heartbeat.missed_ms or due_ms + heartbeat.grace_ms not in heartbeat.missed_ms:
        _set_state(heartbeat, "up", at_ms, due_ms, due_ms)
        return
    while due_ms + heartbeat.grace_ms in heartbeat.missed_ms:
        due_ms = _due_after(heartbeat, due_ms)
    _set_state(heartbeat, "late", at_ms, due_ms, due_ms + heartbeat.grace_ms)


def _due_after(heartbeat: Heartbeat, after_ms: int) -> int:
    """Return the next due time after a signal or a due time."""
    due_ms = next_due(heartbeat.schedule, after_ms)
    blind = heartbeat.blind
    return due_ms if blind is None else blind.move_due(due_ms, after_ms, heartbeat.grace_ms)


def _timeout_ms(heartbeat: Heartbeat) -> int | None:
    """Return when the oldest open run exceeds its time limit."""
    started_ms = heartbeat.oldest_start_ms
    return None if started_ms is None else _limit_ms(heartbeat, started_ms)


def _limit_ms(heartbeat: Heartbeat, started_ms: int) -> int:
    """Return when a run exceeds its time limit."""
    limit_ms = started_ms + heartbeat.max_runtime_ms
    blind = heartbeat.blind
    return limit_ms if blind is None else blind.move_limit(limit_ms, started_ms, heartbeat.grace_ms)


def _set_state(
    heartbeat: Heartbeat, state: State, at_ms: int, due_ms: int | None, deadline_ms: int | None
) -> None:
    if state != heartbeat.state:
        heartbeat.state = state
        heartbeat.since_ms = at_ms
    heartbeat.due_ms = due_ms
    heartbeat.deadline_ms = deadline_ms


def apply_deadlines(heartbeat: Heartbeat, open_runs: list[Run], clock_ms: int) -> list[Run]:
    """Apply all deadlines until `clock_ms`; return the runs that have exceeded their time limit."""
    timed_out = []
    while heartbeat.deadline_ms is not None and heartbeat.deadline_ms <= clock_ms:
        deadline_ms = heartbeat.deadline_ms
        if heartbeat.open_runs:
            timed_out += _time_out(heartbeat, open_runs, deadline_ms)
            update_state(heartbeat, deadline_ms)
        else:
            _apply_deadline(heartbeat, deadline_ms)
    return timed_out


def _time_out(heartbeat: Heartbeat, open_runs: list[Run], at_ms: int) -> list[Run]:
    timed_out = []
    for run in open_runs:
        if run.started_ms is not None and _is_timed(heartbeat, run):
            limit_ms = _limit_ms(heartbeat, run.started_ms)
            if limit_ms <= at_ms:
                run.timed_out_ms = limit_ms
                timed_out.append(run)
                _count_end(heartbeat, run)
    _count_open(heartbeat, open_runs)
    return timed_out


def _apply_deadline(heartbeat: Heartbeat, deadline_ms: int) -> None:
    due_ms = heartbeat.due_ms
    if due_ms is None:
        heartbeat.deadline_ms = None
    elif deadline_ms < due_ms + heartbeat.grace_ms:
        blind = heartbeat.blind
        if blind is not None and due_ms <= blind.from_ms:
            # Evaluated only now, and its grace time extends into the gap.
            due_ms = blind.move_due(due_ms, due_ms, heartbeat.grace_ms)
        _set_state(heartbeat, "late", deadline_ms, due_ms, due_ms + heartbeat.grace_ms)
    else:
        heartbeat.failures_in_row += 1
        _add_missed(heartbeat, [deadline_ms])
        if heartbeat.failures_in_row >= heartbeat.failures_before_down:
            _set_state(heartbeat, "down", deadline_ms, None, None)
        else:
            due_ms = _due_after(heartbeat, due_ms)
            _set_state(heartbeat, "late", deadline_ms, due_ms, due_ms + heartbeat.grace_ms)

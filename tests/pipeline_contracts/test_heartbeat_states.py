"""States of a heartbeat: every order of the signals of two overlapping runs, and each deadline."""

import itertools
import random
from dataclasses import replace
from typing import Any

import pytest

from pipeline_contracts.heartbeat_runs import Run
from pipeline_contracts.heartbeat_states import (
    Heartbeat,
    apply_deadlines,
    apply_signal,
    keep_failures,
    recount,
    resume,
    update_state,
)
from pipeline_contracts.schedules import Schedule

T0 = 1_800_000_000_000
MINUTE = 60_000
HOUR = 60 * MINUTE
NEW = Heartbeat(
    heartbeat_id=1,
    environment_id="env_1",
    schedule=Schedule(3600),
    grace_ms=5 * MINUTE,
    max_runtime_ms=30 * MINUTE,
    failures_before_down=1,
    paused=False,
    state="new",
    since_ms=T0 - HOUR,
    due_ms=None,
    deadline_ms=None,
    last_signal_ms=None,
    last_success_ms=None,
    last_end_ms=None,
    failures_in_row=0,
    open_runs=0,
    oldest_start_ms=None,
    version=0,
)


class Watch:
    """A heartbeat with all of its runs."""

    def __init__(self, **changes: Any) -> None:
        self.heartbeat = replace(NEW, missed_ms=[], **changes)
        self.runs: dict[str, Run] = {}

    def signal(self, run_id: str, signal: Any, at_ms: int, intake_ms: int | None = None) -> None:
        run = self.runs.setdefault(run_id, Run(run_id, at_ms))
        if apply_signal(self.heartbeat, run, signal, at_ms, intake_ms):
            update_state(self.heartbeat, at_ms)
            if self.heartbeat.needs_recount:
                recount(self.heartbeat, list(self.runs.values()))

    def at(self, clock_ms: int) -> str:
        """Apply all deadlines until this time, and return the state."""
        runs = [run for run in self.runs.values() if run.outcome == "open"]
        apply_deadlines(self.heartbeat, runs, clock_ms)
        return self.heartbeat.state

    def counts(self) -> tuple[Any, ...]:
        h = self.heartbeat
        return (h.state, h.failures_in_row, h.last_success_ms, h.last_end_ms, h.open_runs, h.oldest_start_ms)


# Two runs that overlap: a starts, b starts, a ends, b ends. Each signal has its own time of receipt.
SIGNALS = {
    end_of: [
        ("a", "start", T0),
        ("b", "start", T0 + 60_000),
        ("a", end_of[0], T0 + 120_000),
        ("b", end_of[1], T0 + 210_000),
    ]
    for end_of in itertools.product(("success", "failure"), repeat=2)
}
ENDS = {
    ("success", "success"): ("up", 0),
    ("success", "failure"): ("down", 1),
    ("failure", "success"): ("up", 0),
    ("failure", "failure"): ("down", 2),
}


@pytest.mark.parametrize("ends", SIGNALS, ids="-".join)
def test_every_order_of_two_overlapping_runs(ends: tuple[str, str]) -> None:
    """All 24 orders of applying the signals give the same states, counts and durations; repeats change nothing."""
    seen = set()
    for order in itertools.permutations(SIGNALS[ends]):
        watch = Watch()
        for run_id, signal, at_ms in order:
            watch.signal(run_id, signal, at_ms)
            watch.signal(run_id, signal, at_ms + 999)
        for run_id, signal, at_ms in reversed(order):
            watch.signal(run_id, signal, at_ms + 5000)
        assert watch.runs["a"].duration_ms == 120_000
        assert watch.runs["b"].duration_ms == 150_000
        assert [run.outcome for run in watch.runs.values()].count("open") == 0
        seen.add(watch.counts())
    state, failures = ENDS[ends]
    (counts,) = seen
    assert counts[:2] == (state, failures)


ORDERS = [
    # Signals in the order of receipt, a second apart; then the run's outcome, its duration in s, and the state.
    (["start", "success"], "succeeded", 1, "up"),
    (["start", "failure"], "failed", 1, "down"),
    (["success"], "succeeded", None, "up"),
    (["failure"], "failed", None, "down"),
    (["start"], "open", None, "running"),
    (["success", "start"], "succeeded", None, "up"),
    (["failure", "start"], "failed", None, "down"),
    (["start", "success", "success"], "succeeded", 1, "up"),
    (["start", "start", "success"], "succeeded", 2, "up"),
    (["start", "success", "failure"], "failed", 2, "down"),
    (["start", "failure", "success"], "failed", 1, "down"),
    (["success", "failure"], "failed", None, "down"),
    (["failure", "success"], "failed", None, "down"),
    (["success", "start", "failure"], "failed", 1, "down"),
]


@pytest.mark.parametrize(("signals", "outcome", "seconds", "state"), ORDERS, ids=lambda x: str(x))
def test_outcome_of_one_run(signals: list[str], outcome: str, seconds: int | None, state: str) -> None:
    """The order of receipt decides, not the order of application."""
    received = [(signal, T0 + 1000 * n) for n, signal in enumerate(signals)]
    for order in itertools.permutations(received):
        watch = Watch()
        for signal, at_ms in order:
            watch.signal("a", signal, at_ms)
        run = watch.runs["a"]
        assert run.outcome == outcome
        assert run.duration_ms == (None if seconds is None else 1000 * seconds)
        assert watch.heartbeat.state == state


def test_heartbeat_stays_running_while_another_run_is_open() -> None:
    watch = Watch()
    watch.signal("a", "start", T0)
    watch.signal("b", "start", T0 + 1)
    watch.signal("a", "success", T0 + 2)
    assert watch.heartbeat.state == "running"
    assert watch.heartbeat.oldest_start_ms == T0 + 1
    watch.signal("b", "success", T0 + 3)
    assert (watch.heartbeat.state, watch.heartbeat.due_ms) == ("up", T0 + 3 + HOUR)


def test_late_then_down_then_up() -> None:
    watch = Watch()
    watch.signal("a", "success", T0)
    assert watch.at(T0 + HOUR - 1) == "up"
    assert watch.at(T0 + HOUR) == "late"
    assert watch.heartbeat.since_ms == T0 + HOUR
    assert watch.at(T0 + HOUR + 5 * MINUTE - 1) == "late"
    assert watch.at(T0 + HOUR + 5 * MINUTE) == "down"
    assert (watch.heartbeat.since_ms, watch.heartbeat.deadline_ms) == (T0 + HOUR + 5 * MINUTE, None)
    watch.signal("b", "start", T0 + 2 * HOUR)
    assert watch.heartbeat.state == "down"
    watch.signal("b", "success", T0 + 2 * HOUR + 1)
    assert (watch.heartbeat.state, watch.heartbeat.due_ms) == ("up", T0 + 3 * HOUR + 1)


def test_late_scan_applies_both_deadlines() -> None:
    watch = Watch()
    watch.signal("a", "success", T0)
    assert watch.at(T0 + 9 * HOUR) == "down"
    assert watch.heartbeat.since_ms == T0 + HOUR + 5 * MINUTE


def test_late_run_begins() -> None:
    watch = Watch()
    watch.signal("a", "success", T0)
    assert watch.at(T0 + HOUR + 1) == "late"
    watch.signal("b", "start", T0 + HOUR + 2)
    assert watch.heartbeat.state == "running"
    # The run's time limit applies now, not the grace.
    assert watch.at(T0 + HOUR + 20 * MINUTE) == "running"
    watch.signal("b", "success", T0 + HOUR + 20 * MINUTE)
    assert watch.heartbeat.state == "up"


def test_run_exceeds_its_time_limit() -> None:
    watch = Watch()
    watch.signal("a", "start", T0)
    watch.signal("b", "start", T0 + 10 * MINUTE)
    assert watch.at(T0 + 30 * MINUTE - 1) == "running"
    assert watch.at(T0 + 30 * MINUTE) == "down"
    assert [run.outcome for run in watch.runs.values()] == ["timed out", "open"]
    assert watch.runs["a"].duration_ms == 30 * MINUTE
    assert watch.at(T0 + 40 * MINUTE) == "down"
    assert [run.outcome for run in watch.runs.values()] == ["timed out", "timed out"]
    assert watch.heartbeat.failures_in_row == 2
    # The run ends after all: its own signal counts.
    watch.signal("b", "success", T0 + 50 * MINUTE)
    assert (watch.heartbeat.state, watch.heartbeat.failures_in_row) == ("up", 0)
    assert watch.runs["b"].duration_ms == 40 * MINUTE


def test_failures_before_down() -> None:
    watch = Watch(failures_before_down=3)
    for number in range(2):
        watch.signal(f"f{number}", "failure", T0 + number)
        assert watch.heartbeat.state == "up"
    watch.signal("good", "success", T0 + 10)
    assert watch.heartbeat.failures_in_row == 0
    for number in range(3, 6):
        watch.signal(f"f{number}", "failure", T0 + 10 + number)
    assert (watch.heartbeat.state, watch.heartbeat.failures_in_row) == ("down", 3)


def test_missed_runs_count_as_failures() -> None:
    watch = Watch(failures_before_down=3)
    watch.signal("a", "success", T0)
    assert watch.at(T0 + HOUR + 5 * MINUTE) == "late"
    assert watch.at(T0 + 2 * HOUR + 5 * MINUTE - 1) == "late"
    assert (watch.at(T0 + 2 * HOUR + 5 * MINUTE), watch.heartbeat.failures_in_row) == ("late", 2)
    assert watch.at(T0 + 3 * HOUR + 5 * MINUTE) == "down"
    assert watch.heartbeat.since_ms == T0 + 3 * HOUR + 5 * MINUTE


def test_new_and_paused_heartbeats_never_become_due() -> None:
    assert Watch().at(T0 + 1000 * HOUR) == "new"
    watch = Watch(paused=True)
    watch.signal("a", "failure", T0)
    assert watch.at(T0 + 1000 * HOUR) == "paused"
    assert watch.runs["a"].outcome == "failed"


def test_end_received_out_of_order_counts_at_its_time() -> None:
    watch = Watch(failures_before_down=5)
    watch.signal("a", "failure", T0 + 100)
    watch.signal("b", "failure", T0 + 300)
    watch.signal("c", "success", T0 + 200)
    assert (watch.heartbeat.failures_in_row, watch.heartbeat.last_success_ms) == (1, T0 + 200)
    watch.signal("d", "success", T0 + 50)
    assert (watch.heartbeat.failures_in_row, watch.heartbeat.last_success_ms) == (1, T0 + 200)
    watch.signal("c", "failure", T0 + 400)
    assert (watch.heartbeat.failures_in_row, watch.heartbeat.last_success_ms) == (4 - 1, T0 + 50)


def _missed_thrice() -> Watch:
    watch = Watch(failures_before_down=3)
    watch.signal("a", "success", T0)
    assert watch.at(T0 + 4 * HOUR) == "down"
    return watch


STILL_DOWN: list[tuple[str, list[tuple[str, Any]]]] = [
    ("a run of two fails", [("b", "start"), ("c", "start"), ("b", "failure")]),
    ("a run that said success fails", [("b", "success"), ("b", "failure")]),
    ("a run starts", [("b", "start")]),
    ("failures alone", [("b", "failure"), ("c", "failure")]),
]


@pytest.mark.parametrize(("case", "signals"), STILL_DOWN, ids=lambda value: str(value)[:30])
def test_only_a_success_ends_down(case: str, signals: list[tuple[str, Any]]) -> None:
    """A recount includes missed runs, which have no row."""
    watch = _missed_thrice()
    for n, (run_id, signal) in enumerate(signals):
        watch.signal(run_id, signal, T0 + 5 * HOUR + n)
    assert watch.heartbeat.state == "down"
    watch.signal("z", "success", T0 + 6 * HOUR)
    assert watch.at(T0 + 6 * HOUR) in ("up", "running")


def test_pruned_failures_still_count() -> None:
    watch = Watch(failures_before_down=3)
    for n in range(3):
        watch.signal(f"f{n}", "failure", T0 + n)
    keep_failures(watch.heartbeat, [watch.runs.pop("f0"), watch.runs.pop("f1")])
    watch.signal("g", "success", T0 + 10)
    assert watch.heartbeat.state == "up"
    # The run failed after all, so no success has ended the row of failures.
    watch.signal("g", "failure", T0 + 11)
    assert (watch.heartbeat.state, watch.heartbeat.failures_in_row) == ("down", 4)


ON_ITS_WAY: list[tuple[Any, int, str]] = [
    # The signal, how long before the deadline it was received, and the state after it was applied.
    ("success", 1, "up"),
    ("start", 1, "running"),
    ("failure", 1, "up"),
    ("success", -1, "up"),
    ("start", -1, "running"),
]


@pytest.mark.parametrize(("signal", "before_ms", "state"), ON_ITS_WAY, ids=str)
def test_signal_processed_late_withdraws_the_miss(signal: Any, before_ms: int, state: str) -> None:
    watch = Watch(failures_before_down=2)
    watch.signal("a", "success", T0)
    deadline_ms = T0 + HOUR + 5 * MINUTE
    assert (watch.at(deadline_ms), watch.heartbeat.failures_in_row) == ("late", 1)
    watch.signal("b", signal, deadline_ms - before_ms)
    missed = 0 if before_ms > 0 or signal == "success" else 1
    failures = missed + (signal == "failure")
    assert (watch.heartbeat.state, watch.heartbeat.failures_in_row) == (state, failures)


@pytest.mark.parametrize("signal", ["start", "success", "failure", None])
def test_down_is_withdrawn_if_the_run_began_in_time(signal: Any) -> None:
    watch = Watch()
    watch.signal("a", "success", T0)
    deadline_ms = T0 + HOUR + 5 * MINUTE
    assert watch.at(deadline_ms) == "down"
    if signal is not None:
        watch.signal("b", signal, deadline_ms - 1)
    expected = {"start": "running", "success": "up", "failure": "down", None: "down"}
    assert watch.heartbeat.state == expected[signal]


def test_failures_with_the_same_time_are_withdrawn_together() -> None:
    """An upgrade sets the time of all failures of a `down` heartbeat to the time when it went down."""
    missed = {"failures_before_down": 3, "failures_in_row": 3, "state": "down", "since_ms": T0 + HOUR}
    watch = Watch(**missed, last_signal_ms=T0 - HOUR)
    watch.heartbeat.missed_ms = [T0 + HOUR] * 3
    watch.signal("a", "start", T0)
    assert watch.counts() == ("running", 0, None, None, 1, T0)
    watch.signal("a", "failure", T0 + 1)
    assert watch.counts() == ("up", 1, None, T0 + 1, 0, None)


def test_signals_before_a_pause_raise_no_alarm_after_it() -> None:
    """An open run, failures, and a signal that was in the pipeline when the heartbeat was resumed."""
    watch = Watch(failures_before_down=2)
    watch.signal("open", "start", T0)
    watch.signal("f", "failure", T0 + 1)
    watch.heartbeat.paused = True
    update_state(watch.heartbeat, T0 + 2)
    watch.signal("g", "failure", T0 + 3)
    resume(watch.heartbeat, T0 + 10 * HOUR)
    assert watch.heartbeat.state == "new"
    for run_id in ("h", "i"):
        watch.signal(run_id, "failure", T0 + 10 * HOUR - 1)
    watch.signal("j", "start", T0 + 9 * HOUR)
    assert watch.at(T0 + 99 * HOUR) == "new"
    watch.signal("k", "success", T0 + 100 * HOUR)
    assert (watch.heartbeat.state, watch.heartbeat.open_runs) == ("up", 0)
    # The end of a run from before the pause counts.
    watch.signal("open", "failure", T0 + 100 * HOUR + 1)
    assert (watch.heartbeat.state, watch.heartbeat.failures_in_row) == ("up", 1)


@pytest.mark.parametrize("seed", range(300))
def test_order_of_signals_does_not_change_the_result(seed: int) -> None:
    """Random signals of several runs, applied in the order of receipt and in another, give the same counts, and so does
    a recount of all runs."""
    chance = random.Random(seed)
    signals = [
        (chance.choice("abcd"), chance.choice(("start", "success", "failure")), T0 + 1000 * n)
        for n in range(chance.randrange(1, 12))
    ]
    ordered, shuffled = Watch(failures_before_down=2), Watch(failures_before_down=2)
    for signal in signals:
        ordered.signal(*signal)
    other_order = chance.sample(signals, len(signals))
    for signal in [*other_order, *other_order]:
        shuffled.signal(*signal)
    assert ordered.counts() == shuffled.counts()
    recounted = Watch(failures_before_down=2)
    recounted.runs = ordered.runs
    recounted.heartbeat.last_signal_ms = ordered.heartbeat.last_signal_ms
    recount(recounted.heartbeat, list(recounted.runs.values()))
    assert recounted.counts() == ordered.counts()


@pytest.mark.parametrize(
    ("intake_ms", "state"),
    [
        # Edges have sent no reports, or reports until just before the signal: the run was missed.
        (None, "down"),
        (T0 + 3 * HOUR - MINUTE, "down"),
        # The time in which the run was due is unknown.
        (T0 + HOUR, "running"),
        # The run was due before the last report.
        (T0 + HOUR + 6 * MINUTE, "down"),
    ],
)
def test_a_signal_from_after_a_gap_that_is_not_known_yet(intake_ms: int | None, state: str) -> None:
    watch = Watch()
    watch.signal("a", "success", T0)
    watch.signal("b", "start", T0 + 3 * HOUR, intake_ms)
    assert watch.heartbeat.state == state

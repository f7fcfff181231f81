"""States of heartbeats under realistic conditions, compared with a model in which everything happens in order.

In the model each signal is applied when it is received, each deadline is applied on time, and nothing is pruned. Under
realistic conditions signals are delayed and overtake each other, scans lag because partitions do, old runs are pruned,
and partitions appear and disappear. Both must end in the same state.
"""

import random
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from consumers.scan_heartbeats import _MARGIN_MS, applied_through_ms
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
from pipeline_contracts.monitors import Signal
from pipeline_contracts.schedules import Schedule
from tests.pipeline_contracts.test_heartbeat_states import NEW, T0

SECOND = 1000
# Longer than any delay of a signal.
PRUNED_AFTER = 20 * 60 * SECOND
SLOWEST = 45 * SECOND


@dataclass
class Watched:
    """A heartbeat with its runs, as in the database."""

    heartbeat: Heartbeat
    runs: dict[str, Run] = field(default_factory=dict)

    def signal(self, run_id: str, signal: Signal, at_ms: int) -> None:
        run = self.runs.setdefault(run_id, Run(run_id, at_ms))
        if apply_signal(self.heartbeat, run, signal, at_ms):
            update_state(self.heartbeat, at_ms)
            if self.heartbeat.needs_recount:
                recount(self.heartbeat, list(self.runs.values()))

    def scan(self, clock_ms: int) -> None:
        apply_deadlines(self.heartbeat, list(self.runs.values()), clock_ms)

    def pause(self, paused: bool, now_ms: int) -> None:
        if not paused:
            resume(self.heartbeat, now_ms)
            return
        self.heartbeat.paused = True
        self.heartbeat.failures_in_row, self.heartbeat.missed_ms = 0, []
        update_state(self.heartbeat, now_ms)

    def prune(self, before_ms: int) -> None:
        newest = self.heartbeat.last_success_ms or 0
        old = [
            run
            for run in self.runs.values()
            if run.first_ms < before_ms
            and run.outcome != "open"
            and not (run.succeeded_ms is not None and run.succeeded_ms >= newest)
        ]
        keep_failures(self.heartbeat, old)
        for run in old:
            del self.runs[run.run_id]

    def outcome(self) -> tuple[Any, ...]:
        h = self.heartbeat
        # Without their runs, only as many failures are kept as make the heartbeat `down`.
        failures = min(h.failures_in_row, h.failures_before_down)
        return (h.state, failures, h.due_ms, h.deadline_ms, h.open_runs, h.oldest_start_ms, h.last_signal_ms)


def _signals(chance: random.Random, end_ms: int) -> list[tuple[int, str, Signal]]:
    """Return (received, run, signal) of a job that runs about every two minutes, and may crash, fail or stop."""
    found: list[tuple[int, str, Signal]] = []
    at_ms, number = T0 + chance.randrange(1000), 0
    while at_ms < end_ms:
        run, number = f"run {number}", number + 1
        took = chance.randrange(SECOND, 100 * SECOND)
        if chance.random() < 0.7:
            found.append((at_ms, run, "start"))
        ends: list[Signal] = [chance.choice(("success", "success", "failure"))]
        if chance.random() < 0.1:
            ends = [] if chance.random() < 0.5 else ["success", "failure"]
        found += [(at_ms + took + n, run, end) for n, end in enumerate(ends)]
        at_ms += chance.choice((40, 120, 120, 120, 300, 600)) * SECOND + chance.randrange(1000)
    return sorted({at: (at, run, signal) for at, run, signal in found if at < end_ms}.values())


def _pauses(chance: random.Random, end_ms: int) -> list[tuple[int, bool]]:
    """Return times of pausing and resuming in turn, the last of resuming."""
    times = sorted(chance.sample(range(T0 + 1, end_ms - 10 * 60 * SECOND), 2 * chance.randrange(3)))
    return [(at_ms, n % 2 == 0) for n, at_ms in enumerate(times)]


class Partitions:
    """Progress of the partitions of the topic. The heartbeat's signals are in partition 0."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.progress: dict[int, int] = {0: T0, 7: T0 - 1}
        """Partition 7 belonged to an earlier topic of this name with more partitions."""
        self.existing = {0}

    def clock_ms(self, now_ms: int) -> int | None:
        if self.chance.random() < 0.1:
            self.existing ^= {self.chance.choice((1, 2, 3))}
        for partition in self.existing:
            if partition == 0 or self.chance.random() < 0.8:
                self.progress[partition] = now_ms
        return applied_through_ms(self.progress, self.existing)


def _run_with_delays(
    chance: random.Random,
    watched: Watched,
    signals: list[tuple[int, str, Signal]],
    pauses: list[tuple[int, bool]],
    end_ms: int,
) -> None:
    partitions = Partitions(chance)
    slow = [0, 0, 50, 2 * SECOND, SLOWEST]
    events: list[tuple[int, str, Any]] = [(at, "pause", paused) for at, paused in pauses]
    for signal in signals:
        arrived = signal[0] + chance.randrange(1 + chance.choice(slow))
        events += [(arrived, "signal", signal)] * chance.choice((1, 1, 1, 2))
    events += [(at, "scan", None) for at in range(T0, end_ms, 2 * SECOND)]
    events += [(at, "prune", None) for at in range(T0, end_ms, PRUNED_AFTER // 5)]
    for at_ms, kind, value in sorted(events, key=lambda event: event[:2]):
        if kind == "pause":
            watched.pause(value, at_ms)
        elif kind == "signal":
            watched.signal(value[1], value[2], value[0])
        elif kind == "prune":
            watched.prune(at_ms - PRUNED_AFTER)
        elif (clock_ms := partitions.clock_ms(at_ms)) is not None:
            before = watched.heartbeat.state
            watched.scan(clock_ms - _MARGIN_MS)
            assert before != "down" or watched.heartbeat.state == "down"
    # No partition delays the clock forever.
    partitions.progress |= dict.fromkeys(partitions.existing, end_ms)
    assert applied_through_ms(partitions.progress, partitions.existing) == end_ms


def _run_in_order(
    watched: Watched, signals: list[tuple[int, str, Signal]], pauses: list[tuple[int, bool]]
) -> None:
    events: list[tuple[int, Any]] = [*((at, paused) for at, paused in pauses), *((s[0], s) for s in signals)]
    for at_ms, value in sorted(events, key=lambda event: event[0]):
        watched.scan(at_ms)
        if isinstance(value, bool):
            watched.pause(value, at_ms)
        else:
            watched.signal(value[1], value[2], value[0])


@pytest.mark.parametrize("seed", range(300))
def test_delayed_signals_end_in_the_state_of_the_model(seed: int) -> None:
    chance = random.Random(seed)
    new = replace(
        NEW,
        schedule=Schedule(120) if chance.random() < 0.8 else Schedule(cron="*/2 * * * *"),
        grace_ms=chance.choice((0, 5, 60)) * SECOND,
        max_runtime_ms=chance.choice((30, 90, 400)) * SECOND,
        failures_before_down=chance.choice((1, 1, 2, 3)),
    )
    end_ms = T0 + 3600 * SECOND
    signals, pauses = _signals(chance, end_ms - SLOWEST), _pauses(chance, end_ms)
    model = Watched(replace(new, missed_ms=[]))
    _run_in_order(model, signals, pauses)
    delayed = Watched(replace(new, missed_ms=[]))
    _run_with_delays(chance, delayed, signals, pauses, end_ms)
    for watched in (model, delayed):
        watched.scan(end_ms)
    assert delayed.outcome() == model.outcome()

"""Heartbeats as they are judged in practice, held against a model in which everything happens in order.

In the model each signal is applied the moment it is received, each deadline passes on time, and nothing is pruned. In
practice signals are slow and overtake each other, scans come now and then by a clock that partitions hold back, old
runs are pruned, and partitions come and go. Both have to end alike.
"""

import random
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from consumers.scan_heartbeats import _MARGIN_MS, applied_through_ms
from pipeline_contracts.heartbeat_runs import Run
from pipeline_contracts.heartbeat_states import (
    Heartbeat,
    forget_runs,
    pass_deadlines,
    recount,
    resume,
    settle,
    take_signal,
)
from pipeline_contracts.monitors import Signal
from pipeline_contracts.schedules import Schedule
from tests.pipeline_contracts.test_heartbeat_states import NEW, T0

SECOND = 1000
# Longer than any signal of the model is on its way.
PRUNED_AFTER = 20 * 60 * SECOND
SLOWEST = 45 * SECOND


@dataclass
class Watched:
    """A heartbeat with its runs, as the database has them."""

    heartbeat: Heartbeat
    runs: dict[str, Run] = field(default_factory=dict)

    def signal(self, run_id: str, signal: Signal, at_ms: int) -> None:
        run = self.runs.setdefault(run_id, Run(run_id, at_ms))
        if take_signal(self.heartbeat, run, signal, at_ms):
            settle(self.heartbeat, at_ms)
            if self.heartbeat.recount:
                recount(self.heartbeat, list(self.runs.values()))

    def scan(self, clock_ms: int) -> None:
        pass_deadlines(self.heartbeat, list(self.runs.values()), clock_ms)

    def pause(self, paused: bool, now_ms: int) -> None:
        if not paused:
            resume(self.heartbeat, now_ms)
            return
        self.heartbeat.paused = True
        self.heartbeat.failures_in_row, self.heartbeat.missed_ms = 0, []
        settle(self.heartbeat, now_ms)

    def prune(self, before_ms: int) -> None:
        newest = self.heartbeat.last_success_ms or 0
        old = [
            run
            for run in self.runs.values()
            if run.first_ms < before_ms
            and run.outcome != "open"
            and not (run.succeeded_ms is not None and run.succeeded_ms >= newest)
        ]
        forget_runs(self.heartbeat, old)
        for run in old:
            del self.runs[run.run_id]

    def stands(self) -> tuple[Any, ...]:
        h = self.heartbeat
        # Beyond what makes it down, failures are not kept without their runs.
        failures = min(h.failures_in_row, h.failures_before_down)
        return (h.state, failures, h.due_ms, h.deadline_ms, h.open_runs, h.oldest_start_ms, h.last_signal_ms)


def _signals(chance: random.Random, end_ms: int) -> list[tuple[int, str, Signal]]:
    """(received, run, signal) of a job that mostly runs each two minutes, and sometimes crashes, fails or is away."""
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
    """Times of pausing and resuming in turn; after the last one it is judged."""
    times = sorted(chance.sample(range(T0 + 1, end_ms - 10 * 60 * SECOND), 2 * chance.randrange(3)))
    return [(at_ms, n % 2 == 0) for n, at_ms in enumerate(times)]


class Partitions:
    """How far the partitions of the topic are applied. The heartbeat's signals are in partition 0."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.progress: dict[int, int] = {0: T0, 7: T0 - 1}
        """Partition 7 was in a topic of this name that had more."""
        self.existing = {0}

    def clock_ms(self, now_ms: int) -> int | None:
        if self.chance.random() < 0.1:
            self.existing ^= {self.chance.choice((1, 2, 3))}
        for partition in self.existing:
            if partition == 0 or self.chance.random() < 0.8:
                self.progress[partition] = now_ms
        return applied_through_ms(self.progress, self.existing)


def _in_practice(
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
    for at_ms, kind, what in sorted(events, key=lambda event: event[:2]):
        if kind == "pause":
            watched.pause(what, at_ms)
        elif kind == "signal":
            watched.signal(what[1], what[2], what[0])
        elif kind == "prune":
            watched.prune(at_ms - PRUNED_AFTER)
        elif (clock_ms := partitions.clock_ms(at_ms)) is not None:
            before = watched.heartbeat.state
            watched.scan(clock_ms - _MARGIN_MS)
            assert before != "down" or watched.heartbeat.state == "down"
    # Nothing holds the clock for good.
    partitions.progress |= dict.fromkeys(partitions.existing, end_ms)
    assert applied_through_ms(partitions.progress, partitions.existing) == end_ms


def _in_order(
    watched: Watched, signals: list[tuple[int, str, Signal]], pauses: list[tuple[int, bool]]
) -> None:
    events: list[tuple[int, Any]] = [*((at, paused) for at, paused in pauses), *((s[0], s) for s in signals)]
    for at_ms, what in sorted(events, key=lambda event: event[0]):
        watched.scan(at_ms)
        if isinstance(what, bool):
            watched.pause(what, at_ms)
        else:
            watched.signal(what[1], what[2], what[0])


@pytest.mark.parametrize("seed", range(300))
def test_practice_ends_as_the_model_does(seed: int) -> None:
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
    _in_order(model, signals, pauses)
    practice = Watched(replace(new, missed_ms=[]))
    _in_practice(chance, practice, signals, pauses, end_ms)
    for watched in (model, practice):
        watched.scan(end_ms)
    assert practice.stands() == model.stands()

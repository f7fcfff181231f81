"""The runs that pings without a run ID belong to. Times are seconds; a letter identifies a ping."""

from typing import Any

import pytest

from pipeline_contracts.ping_pairs import PingPairs, UnpairedPing, assign_run, repeat_window_ms

HOUR = 3600

CASES: dict[str, tuple[list[tuple[int, str, Any]], list[str]]] = {
    # By name: pings (second, ping, signal), and the run of each.
    "a result alone": ([(0, "a", "success")], ["a"]),
    "a start and its result": ([(0, "a", "start"), (9, "b", "success")], ["a", "a"]),
    "a start and its failure": ([(0, "a", "start"), (9, "b", "failure")], ["a", "a"]),
    "one after the other": (
        [(0, "a", "start"), (9, "b", "success"), (100, "c", "start"), (109, "d", "failure")],
        ["a", "a", "c", "c"],
    ),
    "a start sent again": ([(0, "a", "start"), (26, "b", "start"), (40, "c", "success")], ["a"] * 3),
    "a result sent again": ([(0, "a", "start"), (9, "b", "failure"), (35, "c", "failure")], ["a"] * 3),
    "a result alone, again": ([(0, "a", "success"), (20, "b", "success")], ["a", "a"]),
    "again after a long time": ([(0, "a", "success"), (60, "b", "success")], ["a", "b"]),
    "two different results": ([(0, "a", "success"), (1, "b", "failure")], ["a", "b"]),
    "the same after another one": (
        [(0, "a", "failure"), (1, "b", "success"), (2, "c", "failure")],
        ["a", "b", "c"],
    ),
    "a start after a result that was sent again": (
        [(0, "a", "success"), (1, "b", "success"), (2, "c", "start"), (3, "d", "success")],
        ["a", "a", "c", "c"],
    ),
    # The newest open run: the first one crashed, or takes longer.
    "two open runs": (
        [(0, "a", "start"), (100, "b", "start"), (150, "c", "success"), (300, "d", "failure")],
        ["a", "b", "b", "a"],
    ),
    "a crash, then a good run": (
        [(0, "a", "start"), (HOUR, "b", "start"), (HOUR + 9, "c", "success")],
        ["a", "b", "b"],
    ),
    "a result of a run that ran into its limit": (
        [(0, "a", "start"), (2 * HOUR, "b", "success")],
        ["a", "a"],
    ),
    "a result long after a crash": ([(0, "a", "start"), (2 * HOUR + 1, "b", "success")], ["a", "b"]),
}


def pair(pairs: PingPairs, pings: list[tuple[int, str, Any]], log: str = "log") -> list[str | None]:
    return [
        assign_run(pairs, UnpairedPing(name, signal, 1000 * at, log, offset), 60_000, 1000 * HOUR)
        for offset, (at, name, signal) in enumerate(pings)
    ]


@pytest.mark.parametrize("case", CASES)
def test_assigns_pings_to_runs(case: str) -> None:
    pings, runs = CASES[case]
    pairs = PingPairs()
    assert pair(pairs, pings) == runs
    # The chunk is read again, as after a crash: nothing is paired twice.
    assert pair(pairs, pings) == [None] * len(pings)
    # In another log the same offsets are other pings.
    assert pair(pairs, [(9 * HOUR, "z", "success")], "another log") == ["z"]


def test_open_runs_of_a_crashing_job_are_bounded() -> None:
    pairs = PingPairs()
    pair(pairs, [(100 * n, f"run {n}", "start") for n in range(50)])
    assert len(pairs.run_ids()) == 10


@pytest.mark.parametrize(("period", "seconds"), [(3600, 60), (120, 60), (10, 5), (1, 0.5), (None, 30)])
def test_repeat_window_depends_on_the_period(period: int | None, seconds: float) -> None:
    assert repeat_window_ms(period) == 1000 * seconds

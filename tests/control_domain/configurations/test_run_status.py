"""Status and next step of runs: a table of cases, and properties that hold in all cases."""

import itertools
import random
from collections.abc import Iterator, Sequence

import pytest

from control_domain.configurations.runs import (
    STEP_TRANSITIONS,
    ConfigurationRunStatus,
    find_next_step,
    summarize_steps,
)
from pipeline_contracts.deploy_states import TRANSITIONS, StepStatus, check_transition

P, R, S, F, C = StepStatus
_LETTERS = dict(zip("PRSFC", StepStatus, strict=True))
_LONGEST = 5

# Statuses of the steps by their first letters, the index of the next step, and the status of the run.
TABLE = """
(none)  -  succeeded
P       0  running
R       0  running
S       -  succeeded
F       -  failed
C       -  canceled
PP      0  running
RP      0  running
SP      1  running
FP      -  failed
CP      1  running
SS      -  succeeded
SC      -  canceled
CS      -  canceled
CC      -  canceled
FC      -  failed
CF      -  failed
SF      -  failed
FS      -  failed
SFPP    -  failed
SSCPP   3  running
SFCP    -  failed
PFP     0  running
PSP     0  running
PSF     0  running
PR      1  running
FR      1  running
CRP     1  running
FPR     2  running
"""
CASES = [line.split() for line in TABLE.strip().splitlines()]


def _read(letters: str) -> list[StepStatus]:
    return [] if letters == "(none)" else [_LETTERS[letter] for letter in letters]


def _all() -> Iterator[Sequence[StepStatus]]:
    for length in range(_LONGEST + 1):
        yield from itertools.product(StepStatus, repeat=length)


@pytest.mark.parametrize(("steps", "place", "status"), CASES)
def test_status_and_next_step_of_each_case(steps: str, place: str, status: str) -> None:
    assert find_next_step(_read(steps)) == (None if place == "-" else int(place))
    assert summarize_steps(_read(steps)) is ConfigurationRunStatus(status)


def test_a_run_is_running_exactly_if_it_has_a_next_step() -> None:
    for steps in _all():
        assert (summarize_steps(steps) is ConfigurationRunStatus.RUNNING) is (
            find_next_step(steps) is not None
        )


def test_the_next_step_is_unfinished_and_not_blocked() -> None:
    for steps in _all():
        place = find_next_step(steps)
        if place is None:
            # Pending steps follow a failed one.
            assert R not in steps
            assert P not in steps or steps.index(F) < steps.index(P)
        elif R in steps:
            assert steps[place] is R
        else:
            assert steps[place] is P
            assert {P, F}.isdisjoint(steps[:place])


def test_the_status_of_a_run_that_is_not_running() -> None:
    for steps in _all():
        match summarize_steps(steps):
            case ConfigurationRunStatus.SUCCEEDED:
                assert set(steps) <= {S}
            case ConfigurationRunStatus.CANCELED:
                assert C in steps
                assert set(steps) <= {S, C}
            case ConfigurationRunStatus.FAILED:
                assert F in steps


def test_step_transitions_match_the_table_of_moves() -> None:
    """Every cancellation and retry is possible that the table of moves allows."""
    assert set(STEP_TRANSITIONS) == {"cancel", "retry"}
    for allowed, to in STEP_TRANSITIONS.values():
        assert allowed == {was for was, following in TRANSITIONS[StepStatus].items() if to in following}
    assert STEP_TRANSITIONS["cancel"][1] is C
    assert STEP_TRANSITIONS["retry"][1] is P


@pytest.mark.parametrize("seed", range(20))
def test_steps_are_applied_in_order_despite_cancel_and_retry(seed: int) -> None:
    """Apply, cancel and retry at random: at most one step is in progress, no step after a failed one starts, and once
    every failure is retried all steps end."""
    chance = random.Random(seed)
    steps = [P] * chance.randint(1, 8)
    for _ in range(200):
        if chance.random() < 0.4:
            allowed, to = STEP_TRANSITIONS[chance.choice(list(STEP_TRANSITIONS))]
            places = [place for place, status in enumerate(steps) if status in allowed]
            if places:
                steps[chance.choice(places)] = to
        elif (place := find_next_step(steps)) is not None:
            was = steps[place]
            assert was is R or F not in steps[:place]
            to = R if was is P else chance.choice((S, F))
            check_transition(was, to)
            steps[place] = to
        assert steps.count(R) <= 1
    while summarize_steps(steps) is not ConfigurationRunStatus.SUCCEEDED:
        place = find_next_step(steps)
        if place is None:
            steps = [P if status in (F, C) else status for status in steps]
        else:
            steps[place] = S
    assert set(steps) == {S}

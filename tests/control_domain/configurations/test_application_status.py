"""What the operations of an application come to, and which is next: each case written out, and what holds of all."""

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
from pipeline_contracts.deploy_states import TRANSITIONS, RunStepStatus, check_transition

P, R, S, F, C = RunStepStatus
_LETTERS = dict(zip("PRSFC", RunStepStatus, strict=True))
_LONGEST = 5

# Operations by their first letters, the place of the next one, and what they come to.
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


def _read(letters: str) -> list[RunStepStatus]:
    return [] if letters == "(none)" else [_LETTERS[letter] for letter in letters]


def _all() -> Iterator[Sequence[RunStepStatus]]:
    for length in range(_LONGEST + 1):
        yield from itertools.product(RunStepStatus, repeat=length)


@pytest.mark.parametrize(("operations", "place", "status"), CASES)
def test_each_case(operations: str, place: str, status: str) -> None:
    assert find_next_step(_read(operations)) == (None if place == "-" else int(place))
    assert summarize_steps(_read(operations)) is ConfigurationRunStatus(status)


def test_the_status_is_running_exactly_if_something_is_next() -> None:
    for operations in _all():
        assert (summarize_steps(operations) is ConfigurationRunStatus.RUNNING) is (
            find_next_step(operations) is not None
        )


def test_what_is_next_waits_for_nothing_and_was_not_ended() -> None:
    for operations in _all():
        place = find_next_step(operations)
        if place is None:
            # What waits, if anything, waits behind a failure.
            assert R not in operations
            assert P not in operations or operations.index(F) < operations.index(P)
        elif R in operations:
            assert operations[place] is R
        else:
            assert operations[place] is P
            assert {P, F}.isdisjoint(operations[:place])


def test_an_application_that_is_not_running_says_why() -> None:
    for operations in _all():
        match summarize_steps(operations):
            case ConfigurationRunStatus.SUCCEEDED:
                assert set(operations) <= {S}
            case ConfigurationRunStatus.CANCELED:
                assert C in operations
                assert set(operations) <= {S, C}
            case ConfigurationRunStatus.FAILED:
                assert F in operations


def test_what_may_be_wished_for_is_what_the_table_of_moves_has() -> None:
    """Nothing that can be canceled, or tried again, is left out."""
    assert set(STEP_TRANSITIONS) == {"cancel", "retry"}
    for allowed, to in STEP_TRANSITIONS.values():
        assert allowed == {was for was, following in TRANSITIONS[RunStepStatus].items() if to in following}
    assert STEP_TRANSITIONS["cancel"][1] is C
    assert STEP_TRANSITIONS["retry"][1] is P


@pytest.mark.parametrize("seed", range(20))
def test_operations_are_carried_out_in_order_whatever_is_wished_for(seed: int) -> None:
    """A worker does what is next, and somebody cancels and retries at random: two are never under way at once,
    nothing behind a failure is begun, and with every failure tried again all of them end."""
    chance = random.Random(seed)
    operations = [P] * chance.randint(1, 8)
    for _ in range(200):
        if chance.random() < 0.4:
            allowed, to = STEP_TRANSITIONS[chance.choice(list(STEP_TRANSITIONS))]
            places = [place for place, status in enumerate(operations) if status in allowed]
            if places:
                operations[chance.choice(places)] = to
        elif (place := find_next_step(operations)) is not None:
            was = operations[place]
            assert was is R or F not in operations[:place]
            to = R if was is P else chance.choice((S, F))
            check_transition(was, to)
            operations[place] = to
        assert operations.count(R) <= 1
    while summarize_steps(operations) is not ConfigurationRunStatus.SUCCEEDED:
        place = find_next_step(operations)
        if place is None:
            operations = [P if status in (F, C) else status for status in operations]
        else:
            operations[place] = S
    assert set(operations) == {S}

"""Every move between two states, written out."""

import itertools
from typing import Any

import pytest

from pipeline_contracts.deploy_states import (
    ACTIVE_STATUSES,
    FINAL_STATUSES,
    TRANSITIONS,
    ChangeState,
    DeploymentStatus,
    EnvironmentState,
    ForbiddenTransition,
    State,
    StepStatus,
    check_transition,
)

# From, and whether it may become: queued, awaiting_approval, rejected, deploying, running, succeeded, failed, canceled.
DEPLOYMENT = """
queued             no  yes no  yes no  no  no  yes
awaiting_approval  yes no  yes no  no  no  no  yes
rejected           no  no  no  no  no  no  no  no
deploying          no  no  no  no  yes no  yes yes
running            no  no  no  no  no  yes yes no
succeeded          no  no  no  no  no  no  no  no
failed             no  no  no  no  no  no  no  no
canceled           no  no  no  no  no  no  no  no
"""
# From, and whether it may become: running, hibernated.
ENVIRONMENT = """
running            no  yes
hibernated         yes no
"""
# From, and whether it may become: pending, applied, rejected, superseded.
CHANGE = """
pending            no  yes yes yes
applied            no  no  no  no
rejected           no  no  no  no
superseded         no  no  no  no
"""
# From, and whether it may become: pending, running, succeeded, failed, canceled.
OPERATION = """
pending            no  yes no  no  yes
running            no  no  yes yes no
succeeded          no  no  no  no  no
failed             yes no  no  no  no
canceled           yes no  no  no  no
"""
KINDS: list[tuple[type[State], str]] = [
    (DeploymentStatus, DEPLOYMENT),
    (EnvironmentState, ENVIRONMENT),
    (ChangeState, CHANGE),
    (StepStatus, OPERATION),
]


def _expected(kind: type[State], table: str) -> dict[tuple[State, State], bool]:
    rows = [line.split() for line in table.strip().splitlines()]
    states: list[Any] = list(kind)
    assert [row[0] for row in rows] == states
    return {
        (kind(name), wanted): answer == "yes"
        for name, *answers in rows
        for wanted, answer in zip(states, answers, strict=True)
    }


CASES = [
    (was, wanted, allowed)
    for kind, table in KINDS
    for (was, wanted), allowed in _expected(kind, table).items()
]


def _is_allowed(was: State, wanted: State) -> bool:
    try:
        check_transition(was, wanted)
    except ForbiddenTransition as error:
        assert (error.current, error.requested) == (was, wanted)
        assert str(error) == f"What is {was.value} cannot become {wanted.value}."
        return False
    return True


@pytest.mark.parametrize(("was", "wanted", "allowed"), CASES, ids=lambda value: str(value))
def test_each_move(was: State, wanted: State, allowed: bool) -> None:
    assert _is_allowed(was, wanted) is allowed
    assert (wanted in TRANSITIONS[type(was)][was]) is allowed


def test_no_state_of_one_kind_becomes_one_of_another() -> None:
    """Also where their texts are equal, which makes them equal: `running` is of three kinds."""
    every = [state for kind, _ in KINDS for state in kind]
    pairs = [
        (was, wanted) for was, wanted in itertools.product(every, every) if type(was) is not type(wanted)
    ]
    assert len(pairs) == 2 * (8 * 2 + 8 * 4 + 8 * 5 + 2 * 4 + 2 * 5 + 4 * 5)
    assert [pair for pair in pairs if _is_allowed(*pair)] == []
    assert {str(state) for state in DeploymentStatus} & {str(state) for state in EnvironmentState} == {
        "running"
    }
    assert not _is_allowed(EnvironmentState.HIBERNATED, DeploymentStatus.RUNNING)
    assert not _is_allowed(ChangeState.PENDING, DeploymentStatus.REJECTED)
    assert not _is_allowed(StepStatus.PENDING, DeploymentStatus.CANCELED)
    assert not _is_allowed(DeploymentStatus.RUNNING, StepStatus.SUCCEEDED)


def test_there_is_a_table_of_each_kind_with_all_of_its_states() -> None:
    assert set(TRANSITIONS) == {kind for kind, _ in KINDS}
    for kind, moves in TRANSITIONS.items():
        assert set(moves) == set(kind)


def test_a_caller_polls_until_one_of_four() -> None:
    assert frozenset({"succeeded", "failed", "rejected", "canceled"}) == FINAL_STATUSES
    for status in DeploymentStatus:
        assert (status in FINAL_STATUSES) == (
            not any(_is_allowed(status, wanted) for wanted in DeploymentStatus)
        )


def test_what_is_active_is_neither_final_nor_waiting_for_a_person() -> None:
    assert ACTIVE_STATUSES == ("queued", "deploying", "running")
    assert not FINAL_STATUSES.intersection(ACTIVE_STATUSES)
    assert {*ACTIVE_STATUSES, *FINAL_STATUSES, DeploymentStatus.AWAITING_APPROVAL} == set(DeploymentStatus)


def test_every_deployment_can_be_finished() -> None:
    """From each status some way leads to a final one."""
    for status in DeploymentStatus:
        reached, new = {status}, {status}
        while new:
            new = {wanted for was in new for wanted in DeploymentStatus if _is_allowed(was, wanted)} - reached
            reached |= new
        assert FINAL_STATUSES & reached, status


def test_an_operation_succeeds_once_and_what_has_not_succeeded_still_can() -> None:
    ended = {was for was in StepStatus if not any(_is_allowed(was, wanted) for wanted in StepStatus)}
    assert ended == {StepStatus.SUCCEEDED}
    for status in StepStatus:
        way = {status}
        while StepStatus.SUCCEEDED not in way:
            further = way | {wanted for was in way for wanted in StepStatus if _is_allowed(was, wanted)}
            assert further != way, status
            way = further

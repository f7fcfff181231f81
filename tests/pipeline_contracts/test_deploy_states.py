"""Every transition between two states, written out."""

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
STEP = """
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
    (StepStatus, STEP),
]


def _expected(kind: type[State], table: str) -> dict[tuple[State, State], bool]:
    rows = [line.split() for line in table.strip().splitlines()]
    states: list[Any] = list(kind)
    assert [row[0] for row in rows] == states
    return {
        (kind(name), following): cell == "yes"
        for name, *cells in rows
        for following, cell in zip(states, cells, strict=True)
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
        assert str(error) == f"The status {was.value} cannot change to {wanted.value}."
        return False
    return True


@pytest.mark.parametrize(("was", "wanted", "allowed"), CASES, ids=lambda value: str(value))
def test_each_transition(was: State, wanted: State, allowed: bool) -> None:
    assert _is_allowed(was, wanted) is allowed
    assert (wanted in TRANSITIONS[type(was)][was]) is allowed


def test_no_transition_to_another_kind_of_state() -> None:
    """This holds even if their texts, and so the states, are equal: three kinds have the state `running`."""
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


def test_transitions_cover_all_states_of_each_kind() -> None:
    assert set(TRANSITIONS) == {kind for kind, _ in KINDS}
    for kind, transitions in TRANSITIONS.items():
        assert set(transitions) == set(kind)


def test_final_statuses_are_those_without_transitions() -> None:
    assert frozenset({"succeeded", "failed", "rejected", "canceled"}) == FINAL_STATUSES
    for status in DeploymentStatus:
        assert (status in FINAL_STATUSES) == (
            not any(_is_allowed(status, wanted) for wanted in DeploymentStatus)
        )


def test_active_statuses_are_neither_final_nor_awaiting_approval() -> None:
    assert ACTIVE_STATUSES == ("queued", "deploying", "running")
    assert not FINAL_STATUSES.intersection(ACTIVE_STATUSES)
    assert {*ACTIVE_STATUSES, *FINAL_STATUSES, DeploymentStatus.AWAITING_APPROVAL} == set(DeploymentStatus)


def test_every_status_leads_to_a_final_one() -> None:
    for status in DeploymentStatus:
        reached, new = {status}, {status}
        while new:
            new = {wanted for was in new for wanted in DeploymentStatus if _is_allowed(was, wanted)} - reached
            reached |= new
        assert FINAL_STATUSES & reached, status


def test_step_succeeds_once_and_any_other_still_can() -> None:
    ended = {was for was in StepStatus if not any(_is_allowed(was, wanted) for wanted in StepStatus)}
    assert ended == {StepStatus.SUCCEEDED}
    for status in StepStatus:
        reached = {status}
        while StepStatus.SUCCEEDED not in reached:
            more = reached | {wanted for was in reached for wanted in StepStatus if _is_allowed(was, wanted)}
            assert more != reached, status
            reached = more

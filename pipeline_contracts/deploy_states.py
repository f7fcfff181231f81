"""The states of deployments, environments, variable changes and a configuration's operations, and every move that is
allowed between them.

The one table that the control plane and the deployer ask. `contract.md` of the public API names the same moves; what
stands nowhere here is refused.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final


class DeploymentStatus(StrEnum):
    """Where a deployment is. A caller polls until one of `FINAL`."""

    QUEUED = "queued"
    AWAITING_APPROVAL = "awaiting_approval"
    REJECTED = "rejected"
    DEPLOYING = "deploying"
    """Check-out and build."""
    RUNNING = "running"
    """Release steps, start, health, switch."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


class DeploymentStep(StrEnum):
    """How far the deployer is with what it carries out. After `SWITCH` there is no way back."""

    CHECK_OUT = "check_out"
    BUILD = "build"
    RELEASE = "release"
    START = "start"
    SWITCH = "switch"


class EnvironmentState(StrEnum):
    """What an environment is asked to be."""

    RUNNING = "running"
    HIBERNATED = "hibernated"


class ChangeState(StrEnum):
    """Where a change of variables is that needs a second person."""

    PENDING = "pending"
    APPLIED = "applied"
    REJECTED = "rejected"
    SUPERSEDED = "superseded"
    """A newer change of the same environment came first: it replaces all variables, as this one would have."""


class OperationStatus(StrEnum):
    """Where one operation of a configuration's application is."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


State = DeploymentStatus | EnvironmentState | ChangeState | OperationStatus

_DEPLOYMENT: Final[Mapping[DeploymentStatus, frozenset[DeploymentStatus]]] = {
    DeploymentStatus.QUEUED: frozenset(
        {DeploymentStatus.DEPLOYING, DeploymentStatus.AWAITING_APPROVAL, DeploymentStatus.CANCELED}
    ),
    DeploymentStatus.AWAITING_APPROVAL: frozenset(
        {DeploymentStatus.QUEUED, DeploymentStatus.REJECTED, DeploymentStatus.CANCELED}
    ),
    DeploymentStatus.DEPLOYING: frozenset(
        {DeploymentStatus.RUNNING, DeploymentStatus.FAILED, DeploymentStatus.CANCELED}
    ),
    DeploymentStatus.RUNNING: frozenset({DeploymentStatus.SUCCEEDED, DeploymentStatus.FAILED}),
    DeploymentStatus.REJECTED: frozenset(),
    DeploymentStatus.SUCCEEDED: frozenset(),
    DeploymentStatus.FAILED: frozenset(),
    DeploymentStatus.CANCELED: frozenset(),
}
_ENVIRONMENT: Final[Mapping[EnvironmentState, frozenset[EnvironmentState]]] = {
    EnvironmentState.RUNNING: frozenset({EnvironmentState.HIBERNATED}),
    EnvironmentState.HIBERNATED: frozenset({EnvironmentState.RUNNING}),
}
_CHANGE: Final[Mapping[ChangeState, frozenset[ChangeState]]] = {
    ChangeState.PENDING: frozenset({ChangeState.APPLIED, ChangeState.REJECTED, ChangeState.SUPERSEDED}),
    ChangeState.APPLIED: frozenset(),
    ChangeState.REJECTED: frozenset(),
    ChangeState.SUPERSEDED: frozenset(),
}
_OPERATION: Final[Mapping[OperationStatus, frozenset[OperationStatus]]] = {
    OperationStatus.PENDING: frozenset({OperationStatus.RUNNING, OperationStatus.CANCELED}),
    OperationStatus.RUNNING: frozenset({OperationStatus.SUCCEEDED, OperationStatus.FAILED}),
    OperationStatus.SUCCEEDED: frozenset(),
    # Tried again.
    OperationStatus.FAILED: frozenset({OperationStatus.PENDING}),
    OperationStatus.CANCELED: frozenset({OperationStatus.PENDING}),
}
# A table a kind: members of two StrEnums that have the same text are equal, and would be one key.
MOVES: Final[Mapping[type[State], Mapping[Any, frozenset[Any]]]] = {
    DeploymentStatus: _DEPLOYMENT,
    EnvironmentState: _ENVIRONMENT,
    ChangeState: _CHANGE,
    OperationStatus: _OPERATION,
}
"""Of each kind: from each state to those that may follow it."""

FINAL: Final = frozenset(status for status in DeploymentStatus if not _DEPLOYMENT[status])
"""The deployment statuses that nothing follows."""

ACTIVE: Final = (DeploymentStatus.QUEUED, DeploymentStatus.DEPLOYING, DeploymentStatus.RUNNING)
"""The deployment statuses of which an environment has one at most. One that waits for a person holds nobody up."""


class ForbiddenMove(Exception):
    """A move that the table does not have."""

    def __init__(self, was: State, wanted: State) -> None:
        super().__init__(f"What is {was} cannot become {wanted}.")
        self.was = was
        self.wanted = wanted


def check_move(was: State, wanted: State) -> None:
    """Raises `ForbiddenMove` unless the table has the move. To stay is no move."""
    if type(was) is not type(wanted) or wanted not in MOVES[type(was)][was]:
        raise ForbiddenMove(was, wanted)

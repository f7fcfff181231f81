"""The states of deployments, environments, variable changes and configuration steps, and all allowed transitions.

The control plane and the deployer use this one table. `docs/reference/deploy.md` and `docs/reference/configuration.md`
list the same transitions; any other is refused.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final


class DeploymentStatus(StrEnum):
    """Status of a deployment. A caller polls until one of `FINAL_STATUSES`."""

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
    """The step that a running deployment has reached. After `SWITCH` it cannot be canceled."""

    CHECK_OUT = "check_out"
    BUILD = "build"
    RELEASE = "release"
    START = "start"
    SWITCH = "switch"


class EnvironmentState(StrEnum):
    """Desired state of an environment."""

    RUNNING = "running"
    HIBERNATED = "hibernated"


class ChangeState(StrEnum):
    """State of a change of variables that a second person must approve."""

    PENDING = "pending"
    APPLIED = "applied"
    REJECTED = "rejected"
    SUPERSEDED = "superseded"
    """A newer change of the same environment was applied first: it replaced all variables."""


class StepStatus(StrEnum):
    """Status of one step of a configuration run. The public API calls such a step an operation."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


State = DeploymentStatus | EnvironmentState | ChangeState | StepStatus

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
_OPERATION: Final[Mapping[StepStatus, frozenset[StepStatus]]] = {
    StepStatus.PENDING: frozenset({StepStatus.RUNNING, StepStatus.CANCELED}),
    StepStatus.RUNNING: frozenset({StepStatus.SUCCEEDED, StepStatus.FAILED}),
    StepStatus.SUCCEEDED: frozenset(),
    # Retried.
    StepStatus.FAILED: frozenset({StepStatus.PENDING}),
    StepStatus.CANCELED: frozenset({StepStatus.PENDING}),
}
# One table for each kind: members of two StrEnums with the same text are equal, and would be one key.
TRANSITIONS: Final[Mapping[type[State], Mapping[Any, frozenset[Any]]]] = {
    DeploymentStatus: _DEPLOYMENT,
    EnvironmentState: _ENVIRONMENT,
    ChangeState: _CHANGE,
    StepStatus: _OPERATION,
}
"""For each kind of state: the states that may follow each state."""

FINAL_STATUSES: Final = frozenset(status for status in DeploymentStatus if not _DEPLOYMENT[status])
"""The final statuses of a deployment."""

ACTIVE_STATUSES: Final = (DeploymentStatus.QUEUED, DeploymentStatus.DEPLOYING, DeploymentStatus.RUNNING)
"""An environment has at most one deployment in these statuses. One that awaits approval does not block others."""


class ForbiddenTransition(Exception):
    """`requested` may not follow `current`."""

    def __init__(self, current: State, requested: State) -> None:
        super().__init__(f"The status {current} cannot change to {requested}.")
        self.current = current
        self.requested = requested


def check_transition(current: State, requested: State) -> None:
    """Raise `ForbiddenTransition` unless `requested` may follow `current`. Staying in a state is no transition."""
    if type(current) is not type(requested) or requested not in TRANSITIONS[type(current)][current]:
        raise ForbiddenTransition(current, requested)

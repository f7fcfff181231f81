"""What the operations of an application come to, and which of them is next. Pure."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from pipeline_contracts.deploy_states import StepStatus


class ApplicationStatus(StrEnum):
    """Where an application is."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """An operation has failed; those behind it wait until it was tried again with success."""
    CANCELED = "canceled"
    """Nothing is left to do, and something was canceled."""


WISHES: Mapping[str, tuple[frozenset[StepStatus], StepStatus]] = {
    "cancel": (frozenset({StepStatus.PENDING}), StepStatus.CANCELED),
    "retry": (frozenset({StepStatus.FAILED, StepStatus.CANCELED}), StepStatus.PENDING),
}
"""What may be asked for an operation: where it has to be, and where it is then."""


def find_next(operations: Sequence[StepStatus]) -> int | None:
    """The place of the operation that is to be carried out now, of all in their order; None: there is nothing to do, or
    what there is waits behind one that has failed. One that was begun and not ended comes before all others."""
    if StepStatus.RUNNING in operations:
        return operations.index(StepStatus.RUNNING)
    for place, status in enumerate(operations):
        if status is StepStatus.PENDING:
            return place
        if status is StepStatus.FAILED:
            return None
    return None


def sum_up(operations: Sequence[StepStatus]) -> ApplicationStatus:
    """The status of the application that has these."""
    if find_next(operations) is not None:
        return ApplicationStatus.RUNNING
    if StepStatus.FAILED in operations:
        return ApplicationStatus.FAILED
    if StepStatus.CANCELED in operations:
        return ApplicationStatus.CANCELED
    return ApplicationStatus.SUCCEEDED

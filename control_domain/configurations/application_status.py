"""What the operations of an application come to, and which of them is next. Pure."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from pipeline_contracts.deploy_states import OperationStatus


class ApplicationStatus(StrEnum):
    """Where an application is."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """An operation has failed; those behind it wait until it was tried again with success."""
    CANCELED = "canceled"
    """Nothing is left to do, and something was canceled."""


WISHES: Mapping[str, tuple[frozenset[OperationStatus], OperationStatus]] = {
    "cancel": (frozenset({OperationStatus.PENDING}), OperationStatus.CANCELED),
    "retry": (frozenset({OperationStatus.FAILED, OperationStatus.CANCELED}), OperationStatus.PENDING),
}
"""What may be asked for an operation: where it has to be, and where it is then."""


def find_next(operations: Sequence[OperationStatus]) -> int | None:
    """The place of the operation that is to be carried out now, of all in their order; None: there is nothing to do, or
    what there is waits behind one that has failed. One that was begun and not ended comes before all others."""
    if OperationStatus.RUNNING in operations:
        return operations.index(OperationStatus.RUNNING)
    for place, status in enumerate(operations):
        if status is OperationStatus.PENDING:
            return place
        if status is OperationStatus.FAILED:
            return None
    return None


def sum_up(operations: Sequence[OperationStatus]) -> ApplicationStatus:
    """The status of the application that has these."""
    if find_next(operations) is not None:
        return ApplicationStatus.RUNNING
    if OperationStatus.FAILED in operations:
        return ApplicationStatus.FAILED
    if OperationStatus.CANCELED in operations:
        return ApplicationStatus.CANCELED
    return ApplicationStatus.SUCCEEDED

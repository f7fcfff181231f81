"""Turns the errors of operations that the public API has too into refusals of a command."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from control_domain.refusals import Refused
from pipeline_contracts.deploy_states import ForbiddenTransition
from pipeline_contracts.errors import (
    CommitUnknown,
    EnvironmentLocked,
    InputsChanged,
    LastOwner,
    OutsideWindow,
    Problem,
)

# Not part of the responses of the public API, because only an operator can take these steps.
_NEXT_STEPS: Mapping[type[Problem], str] = {
    EnvironmentLocked: "; `pharos unlock` takes the lock away.",
    OutsideWindow: "; `pharos environment set --window` gives it other hours.",
    CommitUnknown: ", with --revision.",
    LastOwner: ": make somebody else owner first, with `pharos person set-role`.",
    InputsChanged: ": `pharos approvals` shows it, and --digest names it.",
}


@contextmanager
def refuse_problems(subject: str, advice: str) -> Iterator[None]:
    """Raise `Refused` for a `Problem` or a `ForbiddenTransition` of the body.

    For a forbidden transition, the message has the state of `subject` and the `advice`.
    """
    try:
        yield
    except Problem as error:
        raise Refused(f"{error.detail.rstrip('.')}{_NEXT_STEPS.get(type(error), '.')}") from error
    except ForbiddenTransition as error:
        raise Refused(f"{subject} is {error.current.replace('_', ' ')}: {advice}") from error

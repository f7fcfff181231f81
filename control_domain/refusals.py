"""How an operator's wish is turned down."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pipeline_contracts.deploy_states import ForbiddenMove
from pipeline_contracts.errors import EnvironmentLocked, OutsideWindow, Problem

# What the public API need not say, because its callers can do nothing about it.
_NEXT: Mapping[type[Problem], str] = {
    EnvironmentLocked: "; `pharos unlock` takes the lock away.",
    OutsideWindow: "; `pharos environment set --window` gives it other hours.",
}


class Refused(Exception):
    """What was asked for does not exist, cannot be told which, or cannot be; the message says what to do."""


@contextmanager
def refusing(subject: str, advice: str) -> Iterator[None]:
    """For operations that the public API has too: what they refuse is `Refused`.

    Where the state is in the way, the message says in which one `subject` is, and gives the `advice`.
    """
    try:
        yield
    except Problem as error:
        raise Refused(f"{error.detail.rstrip('.')}{_NEXT.get(type(error), '.')}") from error
    except ForbiddenMove as error:
        raise Refused(f"{subject} is {error.was.replace('_', ' ')}: {advice}") from error

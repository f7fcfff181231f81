"""What a Git host is told of a commit that is deployed, and what each host's adapter has."""

from dataclasses import dataclass
from typing import Literal, Protocol

State = Literal["pending", "success", "failure", "error"]


@dataclass(frozen=True, slots=True)
class CommitStatus:
    """How one deployment of a commit stands. Of the same commit and context the host shows what it was told last."""

    repository: str
    """`owner/name` on the host."""
    revision: str
    """The full commit."""
    state: State
    context: str
    """What the status is of, the same for every deployment to an environment: `pharos/shop/production`."""
    description: str
    """For people; at most 140 characters."""
    target_url: str | None = None
    """Where it leads to, http or https."""


class StatusRefused(Exception):
    """The host does not take it, nor would it later. The message says what to do."""


class StatusUnavailable(Exception):
    """The host cannot be told now; later it may."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds for which the host wants to be left alone; None: it has not said."""


class CommitStatuses(Protocol):
    """One Git host."""

    async def tell(self, status: CommitStatus) -> None:
        """Returns when the host has it. Raises `StatusRefused` and `StatusUnavailable`."""

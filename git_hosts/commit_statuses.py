"""Commit statuses, which show the outcome of a deployment on the Git host, and the interface of the clients that send
them."""

from dataclasses import dataclass
from typing import Literal, Protocol

State = Literal["pending", "success", "failure", "error"]


@dataclass(frozen=True, slots=True)
class CommitStatus:
    """The state of one deployment of a commit. The host shows the last status that it received for a commit and
    context."""

    repository: str
    """`owner/name` on the host."""
    revision: str
    """The full commit."""
    state: State
    context: str
    """The name of the status, the same for all deployments to an environment: `pharos/shop/production`."""
    description: str
    """Shown to people; at most 140 characters."""
    target_url: str | None = None
    """The link of the status, http or https."""


class StatusRefused(Exception):
    """The host refuses the status permanently. The message says what to do."""


class StatusUnavailable(Exception):
    """Transient: a later attempt may succeed."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds that the host asks to wait before the next request; None if the response has no such value."""


class CommitStatusClient(Protocol):
    """Sends commit statuses to one Git host."""

    async def send_status(self, status: CommitStatus) -> None:
        """Return once the host has stored the status. Raises `StatusRefused` and `StatusUnavailable`."""

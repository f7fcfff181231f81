"""What a delivery has led to."""

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal

Status = Literal[
    "queued",
    "waiting",
    "preview_queued",
    "preview_updated",
    "preview_closed",
    "handled",
    "pong",
    "skipped",
    "duplicate",
    "ignored",
]
# What of several outcomes is told: the one with which most has happened.
_MOST_FIRST: Sequence[Status] = (
    *("queued", "waiting", "preview_queued", "preview_updated", "preview_closed"),
    *("handled", "pong", "skipped", "duplicate", "ignored"),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer to a delivery, and what only its list tells."""

    status: Status
    deployment_id: int | None = None
    reason: str | None = None
    """Why nothing was done, or not at once; for people."""
    is_accepted: bool = False
    """Whether something of it is still to be done: 202."""
    is_final: bool = True
    """Whether the same delivery, sent again, is a duplicate; False: it is judged anew."""
    forget: tuple[bytes, ...] = ()
    """Digests of keys that the edges have to forget once it is committed."""

    @property
    def http_status(self) -> int:
        return HTTPStatus.ACCEPTED if self.is_accepted else HTTPStatus.OK

    def to_document(self) -> dict[str, Any]:
        """The body of the answer."""
        told: dict[str, Any] = {"status": self.status}
        return told if self.deployment_id is None else {**told, "deployment_id": self.deployment_id}


def ignored(reason: str) -> Outcome:
    """That nothing follows this."""
    return Outcome("ignored", reason=reason)


def sum_up(outcomes: Sequence[Outcome]) -> Outcome:
    """One answer for all that a delivery has led to; there is one at least."""
    first = min(outcomes, key=lambda outcome: _MOST_FIRST.index(outcome.status))
    reasons = dict.fromkeys(outcome.reason for outcome in outcomes if outcome.reason is not None)
    return Outcome(
        first.status,
        first.deployment_id,
        " ".join(reasons) or None,
        any(outcome.is_accepted for outcome in outcomes),
        all(outcome.is_final for outcome in outcomes),
        tuple(digest for outcome in outcomes for digest in outcome.forget),
    )

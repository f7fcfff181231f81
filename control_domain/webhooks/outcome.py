"""The outcome of processing a delivery."""

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
# If a delivery has several outcomes, the first one in this order is reported.
_BY_IMPORTANCE: Sequence[Status] = (
    *("queued", "waiting", "preview_queued", "preview_updated", "preview_closed"),
    *("handled", "pong", "skipped", "duplicate", "ignored"),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The response to a delivery, and details that only the list of deliveries shows."""

    status: Status
    deployment_id: int | None = None
    reason: str | None = None
    """Why nothing was done, or not yet; shown to people."""
    is_accepted: bool = False
    """True if work remains, so that the response is 202."""
    is_final: bool = True
    """True if the same delivery, sent again, is a duplicate; False if it is processed again."""
    removed_key_digests: tuple[bytes, ...] = ()
    """Digests of removed keys, which the edges must drop after the commit."""

    @property
    def http_status(self) -> int:
        return HTTPStatus.ACCEPTED if self.is_accepted else HTTPStatus.OK

    def to_document(self) -> dict[str, Any]:
        """Return the body of the response."""
        document: dict[str, Any] = {"status": self.status}
        return document if self.deployment_id is None else {**document, "deployment_id": self.deployment_id}


def ignored(reason: str) -> Outcome:
    """Return the outcome of a delivery that is ignored."""
    return Outcome("ignored", reason=reason)


def merge_outcomes(outcomes: Sequence[Outcome]) -> Outcome:
    """Merge the outcomes of one delivery, at least one, into its response."""
    first = min(outcomes, key=lambda outcome: _BY_IMPORTANCE.index(outcome.status))
    reasons = dict.fromkeys(outcome.reason for outcome in outcomes if outcome.reason is not None)
    return Outcome(
        first.status,
        first.deployment_id,
        " ".join(reasons) or None,
        any(outcome.is_accepted for outcome in outcomes),
        all(outcome.is_final for outcome in outcomes),
        tuple(digest for outcome in outcomes for digest in outcome.removed_key_digests),
    )

"""What is said of a decoded request: how many records are taken, which are not, and why."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline_contracts.errors import PayloadTooLarge

_MOST_REASONS = 5
# In one insert. Of rejected ones too: each has its place in the record's head, and takes time without taking tokens.
MOST_RECORDS = 50_000


@dataclass(slots=True)
class Verdict:
    """Counts are of spans, log records or data points; places are those in the body, from 0 on."""

    accepted: int = 0
    rejected: list[int] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    """Of the first few."""
    left_out: int = 0
    """Rejected records that have no place: the body goes on without them."""

    @property
    def rejections(self) -> int:
        """How many records were rejected, with a place or without."""
        return len(self.rejected) + self.left_out

    def accept(self, count: int) -> None:
        """Take so many records. Raises `PayloadTooLarge` for more than go into one insert."""
        self.accepted += count
        if self.accepted > MOST_RECORDS:
            raise too_many_records()

    def reject(self, reason: str) -> None:
        """Leave the next record out. Raises `PayloadTooLarge` for more than may be rejected."""
        self.rejected.append(self.accepted + len(self.rejected))
        if len(self.rejected) > MOST_RECORDS:
            raise too_many_records()
        if len(self.reasons) < _MOST_REASONS:
            self.reasons.append(reason)

    def leave_out(self, reasons: Sequence[str]) -> None:
        """Count records that could not be read, a reason for each."""
        self.left_out += len(reasons)
        self.reasons += reasons[: max(0, _MOST_REASONS - len(self.reasons))]


def too_many_records() -> PayloadTooLarge:
    """For more records than are taken, or than may be rejected."""
    return PayloadTooLarge(f"There are more than {MOST_RECORDS} records. Send smaller batches.")

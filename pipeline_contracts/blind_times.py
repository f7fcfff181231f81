"""Gaps in which Pharos may have missed the signals of heartbeats, because it accepted or evaluated nothing.

Times are milliseconds since 1970. A deadline after the start of a gap moves by the length of the gap, and is at least a
grace time after the end of the gap: Pharos could not have received a signal in the gap.
"""

from dataclasses import dataclass

SCAN_CLOCK = "scan"
"""Name of the clock that the heartbeat scan updates."""
INTAKE_CLOCK = "intake"
"""Name of the clock that the edges update."""
TOLERATED_MS = 60_000
"""A clock that stands still for longer than this has a gap."""
# A signal that was received just before the end may not have been stored.
_MARGIN_MS = 4000


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which a clock stood still."""

    from_ms: int
    to_ms: int

    @property
    def length_ms(self) -> int:
        return self.to_ms - self.from_ms


@dataclass(frozen=True, slots=True)
class BlindTime:
    """The gaps since the last signal of a heartbeat that was received outside a gap."""

    from_ms: int
    """The start of the first gap."""
    to_ms: int
    """The end of the last one."""
    total_ms: int
    """The sum of their lengths."""

    def move_due(self, due_ms: int, after_ms: int, grace_ms: int) -> int:
        """Return the due time of a run that is due after a signal or a due time at `after_ms`."""
        if after_ms >= self.to_ms or due_ms + grace_ms <= self.from_ms:
            return due_ms
        if due_ms <= self.from_ms:
            # It was late before the gap, so only the end of its grace time moves.
            return max(due_ms + self.total_ms, self.to_ms)
        return max(due_ms + self.total_ms, self.to_ms + grace_ms)

    def move_limit(self, limit_ms: int, started_ms: int, grace_ms: int) -> int:
        """Return the time limit of a run that began at `started_ms`."""
        if started_ms >= self.to_ms or limit_ms <= self.from_ms:
            return limit_ms
        return max(limit_ms + self.total_ms, self.to_ms + grace_ms)


def find_gap(through_ms: int, at_ms: int, blind_to_ms: int) -> Gap | None:
    """Return the gap of a clock that was last updated at `through_ms` and is updated again at `at_ms`.

    `blind_to_ms`: the end of the last gap of any clock. One outage stops several clocks, but counts once.
    """
    if at_ms - through_ms <= TOLERATED_MS:
        return None
    from_ms = max(through_ms - _MARGIN_MS, blind_to_ms)
    return Gap(from_ms, at_ms) if at_ms - from_ms > TOLERATED_MS else None

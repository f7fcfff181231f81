"""Records which outputs cannot be stored as logs now, and why."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

logger = logging.getLogger(__name__)

# Shorter interruptions are normal: an account is over its rate, or the edge restarts.
_REPORTED_AFTER_SECONDS = 60.0


@dataclass(slots=True)
class StoppedOutputs:
    """The reason for each stopped output. `clock`: returns seconds."""

    clock: Callable[[], float]
    _reasons: dict[str, tuple[str, float]] = field(default_factory=dict)
    """The last reason of each stopped output, and the time of its first failure."""

    def note(self, output: str, reason: str, seconds: float = 0.0) -> bool:
        """Note why an output is not stored. Log a reason that no other output has, and return True for it.

        `seconds`: for how long it has not been stored, if this is the first note about it.
        """
        known, since = self._reasons.get(output, ("", self.clock() - seconds))
        is_new = reason != known and all(reason != each for each, _ in self._reasons.values())
        if is_new:
            logger.warning("the output of applications is not stored as logs: %s", reason)
        self._reasons[output] = reason, since
        return is_new

    def clear(self, output: str) -> None:
        """Record that an output is stored again, or was removed. If no output is stopped any more, log
        this."""
        if self._reasons.pop(output, None) is not None and not self._reasons:
            logger.info("the output of applications is stored as logs again")

    def describe(self) -> str | None:
        """Return one line about outputs that have been stopped for a minute; None if there are none."""
        now = self.clock()
        stopped = [
            reason for reason, since in self._reasons.values() if now - since >= _REPORTED_AFTER_SECONDS
        ]
        if not stopped:
            return None
        of = "one process" if len(stopped) == 1 else f"{len(stopped)} processes"
        return f"the output of {of} is not stored as logs: {stopped[-1]}"

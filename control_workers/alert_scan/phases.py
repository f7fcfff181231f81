"""The phases of a condition: `ok`, `pending` while its value is beyond the threshold but not for long enough, and
`firing` until the value has reached the recovery value. Does no I/O."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import isfinite
from typing import Literal

Phase = Literal["ok", "pending", "firing"]
Turn = Literal["firing", "resolved"]
"""What an event says: the incident opens (`firing`) or ends (`resolved`)."""

MAX_GAP = timedelta(seconds=120)
"""If the last evaluation is older than this, the values since then are unknown."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When a condition fires, and when it recovers."""

    threshold: float
    recovery: float
    is_above: bool = True
    """True to fire above the threshold. False to fire below the threshold."""
    pending: timedelta = timedelta()
    """How long the value must be beyond the threshold before the condition fires."""

    def is_beyond(self, value: float) -> bool:
        """Return True if the value is on the bad side of the threshold."""
        return value > self.threshold if self.is_above else value < self.threshold

    def is_recovered(self, value: float) -> bool:
        """Return True if the value has reached the recovery value. A value beyond the threshold has never
        recovered."""
        reached = value <= self.recovery if self.is_above else value >= self.recovery
        return reached and not self.is_beyond(value)


@dataclass(frozen=True, slots=True)
class State:
    """The state of a condition after an evaluation."""

    phase: Phase
    since: datetime
    """When the phase began. While the value is unknown, the beginning of `pending` moves forward by the same
    time."""
    evaluated_at: datetime
    value: float | None = None
    """The last value that was known."""


def begin(now: datetime) -> State:
    """Return the state of a condition that was never evaluated."""
    return State("ok", now, now)


def evaluate(state: State, limits: Limits, value: float | None, now: datetime) -> tuple[State, Turn | None]:
    """Return the state after an evaluation, and its event or None.

    `value` is None if the value is unknown, because a query failed or there is no data. The phase then stays. It
    also stays for a value that is not finite, such as a sum of huge points.
    """
    if value is not None and not isfinite(value):
        value = None
    state = _leave_out_blind_time(state, is_known=value is not None, now=now)
    if value is None:
        return state, None
    state = replace(state, value=value)
    if state.phase == "firing":
        if limits.is_recovered(value):
            return replace(state, phase="ok", since=now), "resolved"
        return state, None
    if not limits.is_beyond(value):
        return (state if state.phase == "ok" else replace(state, phase="ok", since=now)), None
    if state.phase == "ok":
        state = replace(state, phase="pending", since=now)
    if now - state.since >= limits.pending:
        return replace(state, phase="firing", since=now), "firing"
    return state, None


def _leave_out_blind_time(state: State, *, is_known: bool, now: datetime) -> State:
    unseen = now - state.evaluated_at
    if state.phase == "pending" and (not is_known or unseen > MAX_GAP):
        return replace(state, since=state.since + unseen, evaluated_at=now)
    return replace(state, evaluated_at=now)

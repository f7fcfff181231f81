"""Evaluates what the sources have read: computes the new states of the conditions, and the events for changes. Does no
I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from control_workers.alert_scan.conditions import Event, Observed, Reading, Scope
from control_workers.alert_scan.phases import Limits, State, begin, evaluate
from pipeline_contracts.times import to_epoch_ms

_SHOWN_AS_OF = timedelta(minutes=2)
"""An unchanged state is stored again after this time. Its time then shows that the condition is still evaluated."""
_NO_LIMITS = Limits(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Remembered:
    """The stored state of a condition, and the data that is needed to end its incident if the condition no longer
    exists."""

    state: State
    scope: Scope
    kind: str
    subject: str


@dataclass(slots=True)
class Changes:
    """The states and events that a scan must write."""

    written: dict[str, Remembered] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    events: list[Event] = field(default_factory=list)

    def leave_out(self, key: str) -> None:
        """Remove the changes of a condition whose events have the condition's key as their subject."""
        self.written.pop(key, None)
        self.deleted.discard(key)
        self.events = [event for event in self.events if event.subject != key]


def judge(reading: Reading, states: Mapping[str, Remembered], now: datetime, changes: Changes) -> None:
    """Add to `changes` what follows from the reading of one source. `states`: the stored states by key."""
    own = {key: state for key, state in states.items() if key.startswith(reading.prefix)}
    changes.events += reading.events
    if reading.observed is None:
        for key, remembered in own.items():
            _keep(key, remembered, now, changes)
        return
    for observed in reading.observed:
        _judge_one(observed, own.pop(observed.key, None), now, changes)
    for key, remembered in own.items():
        changes.deleted.add(key)
        if remembered.state.phase == "firing":
            event = (remembered.scope, remembered.kind, remembered.subject)
            changes.events.append(Event(*event, "resolved", {"reason": "removed"}, now))


def _keep(key: str, remembered: Remembered, now: datetime, changes: Changes) -> None:
    if remembered.state.phase == "pending":
        # No limits are needed: without a value, nothing is compared with them.
        state, _ = evaluate(remembered.state, _NO_LIMITS, None, now)
        changes.written[key] = Remembered(state, remembered.scope, remembered.kind, remembered.subject)


def _judge_one(observed: Observed, remembered: Remembered | None, now: datetime, changes: Changes) -> None:
    before = begin(now) if remembered is None else remembered.state
    state, turn = evaluate(before, observed.limits, observed.value, now)
    if turn is not None:
        since = before.since if before.phase == "pending" else now
        facts = {**observed.facts, **describe_limits(observed), "since_ms": to_epoch_ms(since)}
        event = (observed.scope, observed.kind, observed.subject)
        changes.events.append(Event(*event, turn, facts, now))
    if observed.keeps_state or state.phase != "ok":
        if remembered is None or _must_be_stored(state, before):
            changes.written[observed.key] = Remembered(state, observed.scope, observed.kind, observed.subject)
    elif remembered is not None:
        changes.deleted.add(observed.key)


def _must_be_stored(state: State, before: State) -> bool:
    """Return True if the state has changed, or if its time is needed or shown. Writing all states at each scan would
    take longer than the scan itself."""
    if replace(state, evaluated_at=before.evaluated_at) != before or state.phase == "pending":
        return True
    return state.evaluated_at - before.evaluated_at >= _SHOWN_AS_OF


def describe_limits(observed: Observed) -> dict[str, Any]:
    """Return the value and the limits as facts of an event."""
    limits = observed.limits
    return {
        "value": observed.value,
        "threshold": limits.threshold,
        "recovery": limits.recovery,
        "is_above": limits.is_above,
        "pending_seconds": limits.pending.total_seconds(),
    }

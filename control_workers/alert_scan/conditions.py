"""Defines the conditions of the alert scan, and what its sources return when they are read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from control_workers.alert_scan.phases import Limits
from pipeline_contracts.alert_kinds import EventState


@dataclass(frozen=True, slots=True)
class Scope:
    """The account, the project and the environment of an event, as database numbers. An event without project and
    environment is about the installation."""

    account_id: int
    project_id: int | None = None
    environment_id: int | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """An alert event to write."""

    scope: Scope
    kind: str
    subject: str
    state: EventState
    facts: Mapping[str, Any]
    at: datetime


@dataclass(frozen=True, slots=True)
class Observed:
    """A condition, and its current value."""

    key: str
    """The key under which the state of the condition is stored, such as `threshold 3`."""
    scope: Scope
    kind: str
    subject: str
    limits: Limits
    value: float | None
    """The current value. None if it is unknown: the phase of the condition then stays."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Facts for the message, in addition to the value and the limits."""
    keeps_state: bool = False
    """True if the value is stored at each scan, because people can read it. False if it is stored only while the phase
    is not `ok`."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a source returns when it is read: its conditions and its events."""

    prefix: str
    """The prefix of the keys of all conditions of the source."""
    observed: Sequence[Observed] | None
    """All conditions of the source. If a condition has a stored state but is missing here, it no longer exists, and
    its incident is resolved. None if the source could not be read: all phases then stay."""
    events: Sequence[Event] = ()
    """Events that do not belong to a condition with phases."""


def failed(prefix: str) -> Reading:
    """Return the reading of a source that could not be read."""
    return Reading(prefix, None)

"""Conditions of the alert scan, and the readings of its sources."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from control_workers.alert_scan.phases import Limits
from pipeline_contracts.alert_kinds import EventState


@dataclass(frozen=True, slots=True)
class Scope:
    """The account, project and environment of an event, as numbers of rows. Without project and environment, the event
    is about the installation."""

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
    """A condition with its present value."""

    key: str
    """The key of its state: `threshold 3`."""
    scope: Scope
    kind: str
    subject: str
    limits: Limits
    value: float | None
    """None if the value is unknown: the phase then stays."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Facts that the message shows in addition to the value and the limits."""
    keeps_state: bool = False
    """True if the value is stored at each scan because people can read it; false if only while the phase is not
    `ok`."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The conditions and events that a source has read."""

    prefix: str
    """The prefix of the keys of all its conditions."""
    observed: Sequence[Observed] | None
    """All conditions of the source. A condition that has a state but is missing here no longer exists, and is
    resolved. None if the source could not be read: all phases then stay."""
    events: Sequence[Event] = ()
    """Events without a phase."""


def failed(prefix: str) -> Reading:
    """Return the reading of a source that could not be read."""
    return Reading(prefix, None)

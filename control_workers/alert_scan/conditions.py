"""Conditions of the alert scan, and what a source has read of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from control_workers.alert_scan.phases import Limits
from pipeline_contracts.alert_kinds import EventState


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose event it is: numbers of rows. Without a project and an environment: of the installation."""

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
    """None: not known, so the phase stays."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the message shows, besides the value and the limits."""
    keeps_state: bool = False
    """True: the value is stored at each scan, for people who look at it; false: only while it is not `ok`."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a source has read."""

    prefix: str
    """All keys of its conditions begin with it."""
    observed: Sequence[Observed] | None
    """All conditions of the source: one with a state that is missing no longer exists, and is resolved. None: they
    could not be read, so all phases stay."""
    events: Sequence[Event] = ()
    """Events without a phase."""


def failed(prefix: str) -> Reading:
    """Return the reading of a source that could not be read."""
    return Reading(prefix, None)

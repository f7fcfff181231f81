"""Defines what a description of an event is made of, for the modules of all families."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from notifications.message import Figure
from pipeline_contracts.alert_kinds import EventState


@dataclass(frozen=True, slots=True)
class Subject:
    """An event to describe: its subject and its facts."""

    kind: str
    state: EventState
    subject: str
    """The name of the subject. It is unique within the environment and the family."""
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Description:
    """The parts of a `ListedIncident` that depend on the family of the event."""

    title: str
    """One line without a full stop, at most 200 characters: `Heartbeat nightly-backup is down`."""
    details: list[str] = field(default_factory=list)
    """Further sentences that name the cause and the observed values with their units."""
    figures: list[Figure] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    """Labels that identify the subject, such as `{"heartbeat": "nightly-backup"}`. Project and environment are added
    later."""
    command: str | None = None
    """The command that shows details about the subject."""


Describe = Callable[[Subject], Description]
"""Makes the description of an event. Facts from an older version may lack a key; a description must never raise an
error for this reason."""

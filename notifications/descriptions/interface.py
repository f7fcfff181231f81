"""The interface between incidents and the descriptions of each family of kinds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from notifications.message import Figure
from pipeline_contracts.alert_kinds import EventState


@dataclass(frozen=True, slots=True)
class Subject:
    """The event to describe."""

    kind: str
    state: EventState
    subject: str
    """Unique within the environment and the family."""
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Description:
    """The part of a `ListedIncident` that depends on the family."""

    title: str
    """One line, at most 200 characters, without a full stop: `Heartbeat nightly-backup is down`."""
    details: list[str] = field(default_factory=list)
    """Further sentences: the cause, and the observed values with units."""
    figures: list[Figure] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    """Labels that identify the subject: `{"heartbeat": "nightly-backup"}`. Project and environment are added later."""
    command: str | None = None
    """The command that shows details."""


Describe = Callable[[Subject], Description]
"""Facts from an older version may lack a key. A description must never raise an error because of that."""

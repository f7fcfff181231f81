"""How the families of kinds describe their incidents."""

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
    """Further sentences: why, and what was seen, with units."""
    figures: list[Figure] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    """What names the subject: `{"heartbeat": "nightly-backup"}`. Project and environment are added."""
    command: str | None = None
    """The command to look closer."""


Describe = Callable[[Subject], Description]
"""Facts of an older version may lack a key: a description must never raise for one."""

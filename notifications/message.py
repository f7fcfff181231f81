"""The content of one message, as it is stored with a notification and handed to a channel.

A message contains everything that a receiver shows: a channel reads neither the database nor the clock.
"""

from typing import Literal

import msgspec
from msgspec import Struct, field

from pipeline_contracts.alert_kinds import EventState, Severity

Reason = Literal["first", "change", "reminder"]
"""Why the message was sent: the first of its group, a change since the last one, or nothing new for a while."""

MAX_LISTED = 10
"""Incidents that one message lists; `more` counts the others."""


class Figure(Struct, frozen=True, kw_only=True):
    """A number with its unit, such as the value that crossed a threshold."""

    name: str
    """`oldest job`, `error rate`"""
    value: float
    unit: str = ""
    """`s`, `ms`, `%`, `jobs`, …"""
    threshold: float | None = None
    """The value at which the incident opens, in the same unit; None: no threshold."""


class DeploymentBefore(Struct, frozen=True, kw_only=True):
    """The last deployment that succeeded before an incident began."""

    number: int
    revision: str | None
    finished_at: str
    subject: str | None = None
    """The first line of the commit's message."""


class ListedIncident(Struct, frozen=True, kw_only=True):
    """One incident of a message."""

    id: str
    """Stable over all messages of the incident, its resolution included: `inc_…`."""
    kind: str
    """A name in `ALERT_KINDS`."""
    state: EventState
    severity: Severity
    title: str
    """One line without a full stop: `Heartbeat nightly-backup is down`."""
    started_at: str
    """RFC 3339, UTC, whole seconds."""
    resolved_at: str | None = None
    details: list[str] = field(default_factory=list)
    """Further sentences: the cause, and the observed values."""
    figures: list[Figure] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    """`project`, `environment`, and the labels of the subject: `heartbeat`, `queue`, `service`, …"""
    deployment: DeploymentBefore | None = None
    command: str | None = None
    """The command that shows details: `pharos heartbeat show 12`."""
    url: str | None = None
    """The signed address of the incident's page; None without a public URL."""


class Message(Struct, frozen=True, kw_only=True):
    """The content of one notification: up to ten incidents of one project, environment and family."""

    id: str
    """The same ID for each attempt to deliver the message: `msg_…`."""
    group_id: str
    """The same ID for all messages from the first incident of the group until the last one is resolved: `grp_…`."""
    reason: Reason
    is_test: bool = False
    state: EventState
    """`firing` while an incident of the group is open, `resolved` when the last one ended, `info` for an event."""
    severity: Severity
    """The highest severity of the incidents."""
    family: str
    """`heartbeat`, `queue`, …: the first part of the kinds."""
    title: str
    """One line: `3 heartbeats are down in shop/production`."""
    created_at: str
    account: str
    """Name of the account."""
    project: str | None
    """Slug; None for the platform itself."""
    environment: str | None
    incidents: list[ListedIncident]
    firing: int
    """Number of open incidents of the group at this time, including the listed ones."""
    resolved: int
    """Number of incidents that ended since the last message."""
    more: int = 0
    """Number of incidents that are not listed."""
    url: str | None = None
    """The page of the first incident."""
    acknowledge_url: str | None = None
    """Page with a button that acknowledges the incidents, which ends reminders."""
    silence_url: str | None = None
    """Page with a form that silences the incidents for a chosen time."""


encode_message = msgspec.json.Encoder().encode
decode_message = msgspec.json.Decoder(Message).decode

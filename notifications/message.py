"""The content of one message, as it is stored with a notification and handed to a channel.

A message contains everything that a receiver shows, so a channel needs neither the database nor the clock.
"""

from typing import Literal

import msgspec
from msgspec import Struct, field

from pipeline_contracts.alert_kinds import EventState, Severity

Reason = Literal["first", "change", "reminder"]
"""Why the message was sent: it is the first one of its group, something has changed since the last message, or it
reminds of open incidents."""

MAX_LISTED = 10
"""Maximum number of incidents that one message lists. `more` counts the others."""


class Figure(Struct, frozen=True, kw_only=True):
    """A number with its unit, such as the value that crossed a threshold."""

    name: str
    """The name of the number, such as `oldest job` or `error rate`."""
    value: float
    unit: str = ""
    """The unit: `s`, `ms`, `%`, `jobs`, …"""
    threshold: float | None = None
    """The threshold at which the incident opens, in the same unit. None if there is no threshold."""


class DeploymentBefore(Struct, frozen=True, kw_only=True):
    """The last deployment that succeeded before an incident began."""

    number: int
    revision: str | None
    finished_at: str
    subject: str | None = None
    """The first line of the commit's message."""


class ListedIncident(Struct, frozen=True, kw_only=True):
    """One incident, as a message lists it."""

    id: str
    """The public ID of the incident, `inc_…`. It is the same in all messages about the incident, including its
    resolution."""
    kind: str
    """The kind of the incident, a key of `ALERT_KINDS`."""
    state: EventState
    severity: Severity
    title: str
    """One line without a full stop, such as `Heartbeat nightly-backup is down`."""
    started_at: str
    """When the incident began: RFC 3339, UTC, whole seconds."""
    resolved_at: str | None = None
    details: list[str] = field(default_factory=list)
    """Further sentences that name the cause and the observed values."""
    figures: list[Figure] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    """Labels: `project`, `environment`, and those of the subject, such as `heartbeat`, `queue` or `service`."""
    deployment: DeploymentBefore | None = None
    command: str | None = None
    """The command that shows details, such as `pharos heartbeat show 12`."""
    url: str | None = None
    """The signed URL of the incident's page. None if the installation has no public URL."""


class Message(Struct, frozen=True, kw_only=True):
    """The content of one notification: up to ten incidents of one project, environment and family."""

    id: str
    """The ID of the message, `msg_…`. It is the same for each attempt to deliver the message."""
    group_id: str
    """The ID of the group, `grp_…`. It is the same for all messages from the first incident of the group until the
    last one is resolved."""
    reason: Reason
    is_test: bool = False
    state: EventState
    """`firing` while an incident of the group is open, `resolved` when the last one ended, `info` for an event."""
    severity: Severity
    """The highest severity of the incidents."""
    family: str
    """The family, which is the first part of the kinds: `heartbeat`, `queue`, …"""
    title: str
    """One line, such as `3 heartbeats are down in shop/production`."""
    created_at: str
    account: str
    """The name of the account to which the incidents belong."""
    project: str | None
    """The slug of the project. None for the platform itself."""
    environment: str | None
    incidents: list[ListedIncident]
    firing: int
    """Number of open incidents of the group when the message was written, listed or not."""
    resolved: int
    """Number of incidents that have ended since the last message."""
    more: int = 0
    """Number of incidents that the message does not list."""
    url: str | None = None
    """The URL of the page of the first incident."""
    acknowledge_url: str | None = None
    """The URL of a page with a button that acknowledges the incidents. This ends reminders."""
    silence_url: str | None = None
    """The URL of a page with a form that silences the incidents for a chosen time."""


encode_message = msgspec.json.Encoder().encode
decode_message = msgspec.json.Decoder(Message).decode

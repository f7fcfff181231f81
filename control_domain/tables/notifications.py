"""Rows of alert events, incidents, thresholds, notification rules, channels, silences, and notifications.

The path of an event: the transaction of a change adds an `AlertEvent`; the incident worker turns events into
`AlertIncident`s and, by the rules, into members of `NotificationGroup`s; a group that is due becomes a `Notification`;
the delivery worker sends it and stores each `NotificationAttempt`.
"""

from datetime import datetime

from sqlalchemy import (
    BigInteger,
    Boolean,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Text,
    UniqueConstraint,
    false,
    text,
    true,
)
from sqlalchemy.orm import Mapped, mapped_column

from control_domain.database.base import Base, UtcDateTime, partial_index

_BIG_ID = BigInteger().with_variant(Integer, "sqlite")

IS_FIRING = "open_key IS NOT NULL"
"""SQL condition: the incident is open. A query must repeat this text to use the partial index on it."""

IS_PENDING = "status = 'pending'"
"""SQL condition: the notification is neither sent nor given up."""


class AlertEvent(Base):
    """An event that may lead to notifications, written in the transaction of the change that it reports (outbox). The
    incident worker deletes it. The consumers write rows too (`storage_backends.monitor_states`)."""

    __tablename__ = "alert_events"
    # The worker takes the oldest events of each account in turn.
    __table_args__ = (Index("ix_alert_events_account_id", "account_id", "id"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(_BIG_ID, primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"))
    project_id: Mapped[int | None]
    """Null for events of the platform. Without a foreign key: the project may be removed before the event is read."""
    environment_id: Mapped[int | None]
    kind: Mapped[str] = mapped_column(String(40))
    """A name in `pipeline_contracts.alert_kinds`."""
    subject: Mapped[str] = mapped_column(String(160))
    """The subject of the event, unique within the environment and the family: `12` for a heartbeat."""
    state: Mapped[str] = mapped_column(String(10))
    """An `EventState`."""
    at_ms: Mapped[int] = mapped_column(BigInteger)
    """When it changed, in milliseconds since 1970."""
    facts: Mapped[str] = mapped_column(Text)
    """A JSON object, read by `notifications.incidents.describe_facts`."""


class AlertIncident(Base):
    """A problem, from its first event until it is resolved."""

    __tablename__ = "alert_incidents"
    __table_args__ = (
        Index("ix_alert_incidents_account_id", "account_id", "id"),
        # For the time line of an account.
        Index("ix_alert_incidents_started_at", "account_id", "started_at"),
        Index("ix_alert_incidents_resolved_at", "account_id", "resolved_at"),
        partial_index("ix_alert_incidents_firing", "account_id", "id", condition=IS_FIRING),
        Index("ix_alert_incidents_environment_id", "environment_id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(_BIG_ID, primary_key=True)
    public_id: Mapped[str] = mapped_column(String(40), unique=True)
    """`inc_…`"""
    open_key: Mapped[str | None] = mapped_column(String(240), unique=True)
    """Environment, family and subject while the incident is open, so that repeats are one incident; null: resolved."""
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"))
    project_id: Mapped[int | None]
    environment_id: Mapped[int | None]
    kind: Mapped[str] = mapped_column(String(40))
    subject: Mapped[str] = mapped_column(String(160))
    severity: Mapped[str] = mapped_column(String(10))
    state: Mapped[str] = mapped_column(String(10))
    """`firing`, `resolved`, or `info` for an event without an end."""
    started_at: Mapped[datetime] = mapped_column(UtcDateTime)
    changed_at: Mapped[datetime] = mapped_column(UtcDateTime)
    resolved_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    facts: Mapped[str] = mapped_column(Text)
    """JSON of the last event's facts, with `deployment`: the deployment before it."""
    acknowledged_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    acknowledged_by_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    """Null after an acknowledgement through a signed link."""


class AlertThreshold(Base):
    """A condition on a figure that the alert scan evaluates, with a pending time and a separate recovery value."""

    __tablename__ = "alert_thresholds"
    __table_args__ = (UniqueConstraint("environment_id", "name"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(primary_key=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"))
    name: Mapped[str] = mapped_column(String(100))
    kind: Mapped[str] = mapped_column(String(40))
    """`queue.wait`, `queue.size`, `service.error_rate`, `service.latency` or `metric.value`."""
    target: Mapped[str] = mapped_column(String(255))
    """Name of the queue, the service or the metric."""
    service: Mapped[str | None] = mapped_column(String(255))
    """For a metric: the only service that counts."""
    aggregation: Mapped[str] = mapped_column(String(10), server_default="avg")
    """For a metric: avg, min, max, sum or last."""
    is_above: Mapped[bool] = mapped_column(Boolean, server_default=true())
    """True if the threshold fires above its value, false if below."""
    threshold: Mapped[float] = mapped_column(Float)
    recovery: Mapped[float] = mapped_column(Float)
    """The incident is resolved at this value, or beyond it on the good side."""
    window_seconds: Mapped[int]
    pending_seconds: Mapped[int]
    """How long the value must be beyond the threshold before the incident opens."""
    severity: Mapped[str] = mapped_column(String(10))
    enabled: Mapped[bool] = mapped_column(Boolean, server_default=true())
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class AlertState(Base):
    """The alert scan's state of one condition and subject: a threshold, a site, a group of exceptions."""

    __tablename__ = "alert_states"

    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    """`threshold 3`, `site 4 silence`, …"""
    phase: Mapped[str] = mapped_column(String(10))
    """`ok`, `pending` or `firing`."""
    since: Mapped[datetime] = mapped_column(UtcDateTime)
    value: Mapped[float | None] = mapped_column(Float)
    details: Mapped[str] = mapped_column(Text, server_default="{}")
    """JSON that the condition needs at the next scan."""
    evaluated_at: Mapped[datetime] = mapped_column(UtcDateTime)


class AlertClock(Base):
    """The time through which a scan has evaluated its input. A gap means that nothing was monitored for that time."""

    __tablename__ = "alert_clocks"

    name: Mapped[str] = mapped_column(String(60), primary_key=True)
    through: Mapped[datetime] = mapped_column(UtcDateTime)
    blind_since: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """Since when the scan cannot read its input; null if it can."""
    holder: Mapped[str | None] = mapped_column(String(32))
    leased_until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """Until when only the holder scans, by the clock of the database; null without a holder."""


class NotificationChannel(Base):
    """A place to which messages are sent: a webhook, a Slack channel, an e-mail address."""

    __tablename__ = "notification_channels"
    __table_args__ = (UniqueConstraint("account_id", "name"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(primary_key=True)
    public_id: Mapped[str] = mapped_column(String(40), unique=True)
    """`chn_…`; the owner of the sealed secrets."""
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"))
    name: Mapped[str] = mapped_column(String(100))
    type: Mapped[str] = mapped_column(String(20))
    """A name in `control_domain.notifications.channel_types`."""
    settings: Mapped[str] = mapped_column(Text)
    """JSON of the settings that are not secret."""
    sealing_key_id: Mapped[str | None] = mapped_column(String(8))
    sealed: Mapped[bytes | None] = mapped_column(LargeBinary)
    """The secrets (URLs with tokens, keys), sealed like variables."""
    quiet_hours: Mapped[str | None] = mapped_column(Text)
    """JSON of `QuietHours`; null: none."""
    enabled: Mapped[bool] = mapped_column(Boolean, server_default=true())
    failing_since: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """Since when no delivery succeeds; null if the last one did."""
    last_error: Mapped[str | None] = mapped_column(String(500))
    tested_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """When a person last started a test."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class NotificationRule(Base):
    """The recipients of some incidents. An account without a rule has a default rule: it notifies its owners by
    e-mail."""

    __tablename__ = "notification_rules"
    __table_args__ = (UniqueConstraint("account_id", "name"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"))
    name: Mapped[str] = mapped_column(String(100))
    project_id: Mapped[int | None] = mapped_column(ForeignKey("projects.id"), index=True)
    """Null for all projects and the platform."""
    environment_id: Mapped[int | None] = mapped_column(ForeignKey("environments.id"), index=True)
    kinds: Mapped[str | None] = mapped_column(Text)
    """JSON list of kinds and families; null: the kinds that are on by default."""
    min_severity: Mapped[str] = mapped_column(String(10), server_default="info")
    recipients: Mapped[str] = mapped_column(Text)
    """JSON list of `channel ID` and `person ID` with the numbers of the rows."""
    reminders: Mapped[bool] = mapped_column(Boolean, server_default=true())
    enabled: Mapped[bool] = mapped_column(Boolean, server_default=true())
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class NotificationPreference(Base):
    """The quiet hours of a person, in their time zone."""

    __tablename__ = "notification_preferences"

    person_id: Mapped[int] = mapped_column(ForeignKey("people.id"), primary_key=True, autoincrement=False)
    quiet_hours: Mapped[str | None] = mapped_column(Text)
    """JSON of `QuietHours`; null: none."""


class NotificationSilence(Base):
    """A time in which matching incidents are not sent, such as maintenance. It always has an end."""

    __tablename__ = "notification_silences"
    __table_args__ = (
        Index("ix_notification_silences_account_id", "account_id", "ends_at"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"))
    project_id: Mapped[int | None]
    environment_id: Mapped[int | None]
    kinds: Mapped[str | None] = mapped_column(Text)
    """JSON list of kinds and families; null: all."""
    incident_id: Mapped[int | None] = mapped_column(BigInteger)
    """The only silenced incident; null for all that match."""
    starts_at: Mapped[datetime] = mapped_column(UtcDateTime)
    ends_at: Mapped[datetime] = mapped_column(UtcDateTime)
    reason: Mapped[str] = mapped_column(String(500))
    person_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    """The person who created it; null if it was created through a signed link."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class NotificationGroup(Base):
    """The incidents of one project, environment and family for one recipient, and when the next message is due."""

    __tablename__ = "notification_groups"
    __table_args__ = (Index("ix_notification_groups_due_at", "due_at"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(_BIG_ID, primary_key=True)
    key: Mapped[str] = mapped_column(String(200), unique=True)
    public_id: Mapped[str] = mapped_column(String(40))
    """`grp_…`; a new one when an incident opens after all were resolved."""
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"))
    project_id: Mapped[int | None]
    environment_id: Mapped[int | None]
    family: Mapped[str] = mapped_column(String(20))
    channel_id: Mapped[int | None] = mapped_column(ForeignKey("notification_channels.id"), index=True)
    person_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    """The recipient is either a channel or a person, by e-mail."""
    due_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """When the group is processed again; null to wait until an incident changes."""
    sent_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """When its last message was written; null before the first."""
    remind_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class NotificationMember(Base):
    """An incident in a group: the state that was sent to the recipient, and the state to send next."""

    __tablename__ = "notification_members"
    __table_args__ = (
        partial_index(
            "ix_notification_members_pending", "group_id", "pending_since", condition="pending IS NOT NULL"
        ),
        Index("ix_notification_members_incident_id", "incident_id"),
    )

    group_id: Mapped[int] = mapped_column(
        _BIG_ID, ForeignKey("notification_groups.id"), primary_key=True, autoincrement=False
    )
    incident_id: Mapped[int] = mapped_column(
        _BIG_ID, ForeignKey("alert_incidents.id"), primary_key=True, autoincrement=False
    )
    sent: Mapped[str | None] = mapped_column(String(10))
    """`firing` once it was sent; null before. A member whose end was sent is deleted."""
    pending: Mapped[str | None] = mapped_column(String(10))
    """The `EventState` to send next; null: nothing."""
    pending_since: Mapped[datetime | None] = mapped_column(UtcDateTime)
    reminders: Mapped[bool] = mapped_column(Boolean, server_default=true())


class Notification(Base):
    """One message to one recipient, with its content."""

    __tablename__ = "notifications"
    __table_args__ = (
        Index("ix_notifications_account_id", "account_id", "id"),
        Index("ix_notifications_group_id", "group_id", "id"),
        partial_index("ix_notifications_pending", "next_attempt_at", condition=IS_PENDING),
        # For the order within a group, and for notifications that are being sent: few rows of a long history.
        partial_index("ix_notifications_pending_of_group", "group_id", "id", condition=IS_PENDING),
        partial_index("ix_notifications_leased", "leased_until", condition="leased_until IS NOT NULL"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(_BIG_ID, primary_key=True)
    public_id: Mapped[str] = mapped_column(String(40), unique=True)
    """`msg_…`; the `webhook-id` of a webhook."""
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"))
    project_id: Mapped[int | None]
    environment_id: Mapped[int | None]
    group_id: Mapped[int] = mapped_column(BigInteger)
    channel_id: Mapped[int | None] = mapped_column(index=True)
    """Without a foreign key: the notification outlives its channel."""
    person_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    recipient: Mapped[str] = mapped_column(String(300))
    """Name of the channel, or e-mail address of the person, when it was written."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    content: Mapped[str] = mapped_column(Text)
    """JSON of `notifications.message.Message`."""
    title: Mapped[str] = mapped_column(String(300))
    status: Mapped[str] = mapped_column(String(10))
    """`pending`, `sent`, `failed` (given up), or `canceled`; `last_error` says why."""
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    """Attempts since it was written, or since a person last requested to send it again."""
    requested_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """When a person last requested to send it again; null if nobody has."""
    next_attempt_at: Mapped[datetime] = mapped_column(UtcDateTime)
    leased_until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """Until when a delivery worker has leased it, by the clock of the database."""
    sent_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    last_error: Mapped[str | None] = mapped_column(String(500))


class NotificationAttempt(Base):
    """One attempt to deliver a notification."""

    __tablename__ = "notification_attempts"
    __table_args__ = (Index("ix_notification_attempts_notification_id", "notification_id", "id"),)

    id: Mapped[int] = mapped_column(_BIG_ID, primary_key=True)
    notification_id: Mapped[int] = mapped_column(_BIG_ID, ForeignKey("notifications.id"))
    at: Mapped[datetime] = mapped_column(UtcDateTime)
    took_ms: Mapped[int]
    outcome: Mapped[str] = mapped_column(String(10))
    """`sent`, `retry` or `failed`."""
    error: Mapped[str | None] = mapped_column(String(500))
    """Why it did not succeed, for people; null if it did."""
    requested: Mapped[bool] = mapped_column(Boolean, server_default=false())
    """True if a person requested it."""

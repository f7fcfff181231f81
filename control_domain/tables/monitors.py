"""Rows of heartbeats and queues.

The control plane writes the configured monitors and their keys. The consumers write the present state (`*_states`,
`heartbeat_runs`, `queue_workers`, `monitor_progress`) through `storage_backends.monitor_states`, with times in
milliseconds since 1970, UTC.
"""

from datetime import datetime

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Index,
    LargeBinary,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column

from control_domain.database.base import Base, UtcDateTime, partial_index

IS_FAILING = "state IN ('late', 'down')"
"""SQL condition: the heartbeat is late or down. A query must repeat this text to use the partial index on it."""

IS_FAILED_RUN = "failed_ms IS NOT NULL OR timed_out_ms IS NOT NULL"
"""SQL condition: the run failed or took too long. A query must repeat this text to use the partial index on it."""


class Heartbeat(Base):
    """A scheduled job that reports its runs: due every `period_seconds`, or by `cron` in `timezone`."""

    __tablename__ = "heartbeats"
    __table_args__ = (
        UniqueConstraint("environment_id", "name"),
        CheckConstraint("(period_seconds IS NULL) <> (cron IS NULL)", name="ck_heartbeats_one_schedule"),
        # IDs are not reused: signals of a removed heartbeat may still arrive.
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"))
    name: Mapped[str] = mapped_column(String(100))
    period_seconds: Mapped[int | None]
    cron: Mapped[str | None] = mapped_column(String(200))
    timezone: Mapped[str] = mapped_column(String(64))
    grace_seconds: Mapped[int]
    max_runtime_seconds: Mapped[int]
    failures_before_down: Mapped[int]
    paused: Mapped[bool]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class HeartbeatState(Base):
    """The present state of a heartbeat. Each change increments `version` and names the version that it has read."""

    __tablename__ = "heartbeat_states"
    # For the overview: the few heartbeats that need attention.
    __table_args__ = (partial_index("ix_heartbeat_states_failing", "heartbeat_id", condition=IS_FAILING),)

    heartbeat_id: Mapped[int] = mapped_column(
        ForeignKey("heartbeats.id"), primary_key=True, autoincrement=False
    )
    state: Mapped[str] = mapped_column(String(10))
    # The sweep of changes uses the indexes of `since_ms` and `last_signal_ms` to find recently changed states.
    since_ms: Mapped[int] = mapped_column(BigInteger, index=True)
    due_ms: Mapped[int | None] = mapped_column(BigInteger)
    """When the next run must start."""
    deadline_ms: Mapped[int | None] = mapped_column(BigInteger, index=True)
    """When the state changes unless a signal arrives; None if it does not change."""
    last_signal_ms: Mapped[int | None] = mapped_column(BigInteger, index=True)
    last_success_ms: Mapped[int | None] = mapped_column(BigInteger)
    last_end_ms: Mapped[int | None] = mapped_column(BigInteger)
    failures_in_row: Mapped[int]
    open_runs: Mapped[int]
    oldest_start_ms: Mapped[int | None] = mapped_column(BigInteger)
    """Start of the oldest open run."""
    version: Mapped[int]
    judged_from_ms: Mapped[int | None] = mapped_column(BigInteger)
    """When it was last resumed; None if it was never paused."""
    missed_ms: Mapped[str | None] = mapped_column(Text)
    """JSON list of the times of failures without a run."""
    pings: Mapped[str | None] = mapped_column(Text)
    """State that pairs pings without a run ID (`pipeline_contracts.ping_pairs`), as JSON."""
    alerted: Mapped[str | None] = mapped_column(String(10))
    """`late` or `down` as last written to `alert_events`; None for any other state."""
    blind_from_ms: Mapped[int | None] = mapped_column(BigInteger)
    """Since when Pharos may have missed signals of this heartbeat; None if it has missed none."""
    blind_to_ms: Mapped[int | None] = mapped_column(BigInteger)
    """The end of the last gap in which signals may have been missed."""
    blind_ms: Mapped[int | None] = mapped_column(BigInteger)
    """Total length of these gaps: deadlines move by it until a signal arrives after the last gap."""


class HeartbeatRun(Base):
    """One run, identified by the ID that the job sent. Each time is the receipt of the first such signal."""

    __tablename__ = "heartbeat_runs"
    __table_args__ = (
        # The pages of the runs of one heartbeat, newest first.
        Index("ix_heartbeat_runs_heartbeat_id", "heartbeat_id", "first_ms"),
        # For the timeline of an account: few runs of many.
        partial_index("ix_heartbeat_runs_failed", "heartbeat_id", "first_ms", condition=IS_FAILED_RUN),
    )

    heartbeat_id: Mapped[int] = mapped_column(
        ForeignKey("heartbeats.id"), primary_key=True, autoincrement=False
    )
    run_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    first_ms: Mapped[int] = mapped_column(BigInteger, index=True)
    started_ms: Mapped[int | None] = mapped_column(BigInteger)
    succeeded_ms: Mapped[int | None] = mapped_column(BigInteger)
    failed_ms: Mapped[int | None] = mapped_column(BigInteger)
    timed_out_ms: Mapped[int | None] = mapped_column(BigInteger)
    exit_status: Mapped[int | None]
    output: Mapped[str | None] = mapped_column(Text)
    """Output of the job, from the body of a ping."""


class HeartbeatLogEntry(Base):
    """A text that a job has sent to the `/log` of its ping URL. It changes no state."""

    __tablename__ = "heartbeat_log_entries"
    # The pages of the log of one heartbeat, newest first; and the log's pruning.
    __table_args__ = (
        Index("ix_heartbeat_log_entries_heartbeat_id", "heartbeat_id", "received_ms"),
        Index("ix_heartbeat_log_entries_received_ms", "received_ms"),
    )

    heartbeat_id: Mapped[int] = mapped_column(
        ForeignKey("heartbeats.id"), primary_key=True, autoincrement=False
    )
    entry_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    run_id: Mapped[str | None] = mapped_column(String(36))
    """The run that the job has named."""
    received_ms: Mapped[int] = mapped_column(BigInteger)
    text: Mapped[str | None] = mapped_column(Text)


class CreatedHeartbeat(Base):
    """A heartbeat that a ping has created, and that is not published yet. The consumer adds the row, and the control
    plane removes it."""

    __tablename__ = "created_heartbeats"

    heartbeat_id: Mapped[int] = mapped_column(
        ForeignKey("heartbeats.id"), primary_key=True, autoincrement=False
    )
    created_ms: Mapped[int] = mapped_column(BigInteger)


class CreatingPing(Base):
    """A ping that may create a heartbeat, and is applied. It stays for a week, also when the heartbeat has another name
    or is removed: a ping that is applied again creates nothing."""

    __tablename__ = "creating_pings"

    ping_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    heartbeat_id: Mapped[int | None]
    """The heartbeat that it was applied to, which may be removed; None if there was none."""
    applied_ms: Mapped[int] = mapped_column(BigInteger, index=True)


class Queue(Base):
    """A queue of jobs whose length and workers are reported."""

    __tablename__ = "queues"
    # IDs are not reused: the column store keeps the history of removed queues.
    __table_args__ = (UniqueConstraint("environment_id", "name"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(primary_key=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"))
    name: Mapped[str] = mapped_column(String(100))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class QueueState(Base):
    """The snapshot of a queue with the latest time of observation."""

    __tablename__ = "queue_states"

    queue_id: Mapped[int] = mapped_column(ForeignKey("queues.id"), primary_key=True, autoincrement=False)
    snapshot_id: Mapped[str] = mapped_column(String(36))
    observed_us: Mapped[int] = mapped_column(BigInteger)
    """Microseconds since 1970, because senders may send that precision."""
    received_ms: Mapped[int] = mapped_column(BigInteger, index=True)
    pending: Mapped[int] = mapped_column(BigInteger)
    delayed: Mapped[int | None] = mapped_column(BigInteger)
    reserved: Mapped[int | None] = mapped_column(BigInteger)
    failed: Mapped[int | None] = mapped_column(BigInteger)
    oldest_wait_seconds: Mapped[int | None] = mapped_column(BigInteger)


class QueueWorker(Base):
    """The state of a queue worker after its update with the highest sequence; `received_ms` is the last receipt."""

    __tablename__ = "queue_workers"

    queue_id: Mapped[int] = mapped_column(ForeignKey("queues.id"), primary_key=True, autoincrement=False)
    worker_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    sequence: Mapped[int] = mapped_column(BigInteger)
    status: Mapped[str] = mapped_column(String(10))
    job_id: Mapped[str | None] = mapped_column(String(36))
    received_ms: Mapped[int] = mapped_column(BigInteger, index=True)


class MonitorProgress(Base):
    """The time of receipt up to which all signals of a partition are applied. Scans use no later time."""

    __tablename__ = "monitor_progress"

    topic: Mapped[str] = mapped_column(String(100), primary_key=True)
    partition: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    applied_through_ms: Mapped[int] = mapped_column(BigInteger)


class MonitorKey(Base):
    """A key that accepts signals of one heartbeat or queue: the digest of its secret and its lifetime.

    A ping key can be shown again, so its secret is stored sealed. `sealed` is None for every other key.
    """

    __tablename__ = "monitor_keys"
    __table_args__ = (
        CheckConstraint("(heartbeat_id IS NULL) <> (queue_id IS NULL)", name="ck_monitor_keys_one_monitor"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    heartbeat_id: Mapped[int | None] = mapped_column(ForeignKey("heartbeats.id"), index=True)
    queue_id: Mapped[int | None] = mapped_column(ForeignKey("queues.id"), index=True)
    digest: Mapped[bytes] = mapped_column(LargeBinary(32), unique=True)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    sealing_key_id: Mapped[str | None] = mapped_column(String(8))
    sealed: Mapped[bytes | None] = mapped_column(LargeBinary)

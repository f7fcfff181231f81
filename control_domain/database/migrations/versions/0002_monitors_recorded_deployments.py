"""Heartbeats, queues, their keys and present states, and recorded deployments."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_time = sa.DateTime(timezone=True)


def upgrade() -> None:
    _heartbeats()
    _heartbeat_states()
    _queues()
    _keys_and_progress()
    _recorded_deployments()


def _heartbeats() -> None:
    op.create_table(
        "heartbeats",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("environment_id", sa.Integer, nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("period_seconds", sa.Integer, nullable=True),
        sa.Column("cron", sa.String(200), nullable=True),
        sa.Column("timezone", sa.String(64), nullable=False),
        sa.Column("grace_seconds", sa.Integer, nullable=False),
        sa.Column("max_runtime_seconds", sa.Integer, nullable=False),
        sa.Column("failures_before_down", sa.Integer, nullable=False),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("created_at", _time, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_heartbeats"),
        sa.UniqueConstraint("environment_id", "name", name="uq_heartbeats_environment_id"),
        sa.CheckConstraint("(period_seconds IS NULL) <> (cron IS NULL)", name="ck_heartbeats_one_schedule"),
        sa.ForeignKeyConstraint(
            ["environment_id"], ["environments.id"], name="fk_heartbeats_environment_id_environments"
        ),
    )


def _heartbeat_states() -> None:
    op.create_table(
        "heartbeat_states",
        sa.Column("heartbeat_id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("since_ms", sa.BigInteger, nullable=False),
        sa.Column("due_ms", sa.BigInteger, nullable=True),
        sa.Column("deadline_ms", sa.BigInteger, nullable=True),
        sa.Column("last_signal_ms", sa.BigInteger, nullable=True),
        sa.Column("last_success_ms", sa.BigInteger, nullable=True),
        sa.Column("last_end_ms", sa.BigInteger, nullable=True),
        sa.Column("failures_in_row", sa.Integer, nullable=False),
        sa.Column("open_runs", sa.Integer, nullable=False),
        sa.Column("oldest_start_ms", sa.BigInteger, nullable=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("heartbeat_id", name="pk_heartbeat_states"),
        sa.ForeignKeyConstraint(
            ["heartbeat_id"], ["heartbeats.id"], name="fk_heartbeat_states_heartbeat_id_heartbeats"
        ),
    )
    op.create_index("ix_heartbeat_states_deadline_ms", "heartbeat_states", ["deadline_ms"])
    op.create_table(
        "heartbeat_runs",
        sa.Column("heartbeat_id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("run_id", sa.String(36), nullable=False),
        sa.Column("first_ms", sa.BigInteger, nullable=False),
        sa.Column("started_ms", sa.BigInteger, nullable=True),
        sa.Column("succeeded_ms", sa.BigInteger, nullable=True),
        sa.Column("failed_ms", sa.BigInteger, nullable=True),
        sa.Column("timed_out_ms", sa.BigInteger, nullable=True),
        sa.PrimaryKeyConstraint("heartbeat_id", "run_id", name="pk_heartbeat_runs"),
        sa.ForeignKeyConstraint(
            ["heartbeat_id"], ["heartbeats.id"], name="fk_heartbeat_runs_heartbeat_id_heartbeats"
        ),
    )
    op.create_index("ix_heartbeat_runs_first_ms", "heartbeat_runs", ["first_ms"])


def _queues() -> None:
    op.create_table(
        "queues",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("environment_id", sa.Integer, nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("created_at", _time, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_queues"),
        sa.UniqueConstraint("environment_id", "name", name="uq_queues_environment_id"),
        sa.ForeignKeyConstraint(
            ["environment_id"], ["environments.id"], name="fk_queues_environment_id_environments"
        ),
    )
    op.create_table(
        "queue_states",
        sa.Column("queue_id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("snapshot_id", sa.String(36), nullable=False),
        sa.Column("observed_us", sa.BigInteger, nullable=False),
        sa.Column("received_ms", sa.BigInteger, nullable=False),
        sa.Column("pending", sa.BigInteger, nullable=False),
        sa.Column("delayed", sa.BigInteger, nullable=True),
        sa.Column("reserved", sa.BigInteger, nullable=True),
        sa.Column("failed", sa.BigInteger, nullable=True),
        sa.Column("oldest_wait_seconds", sa.BigInteger, nullable=True),
        sa.PrimaryKeyConstraint("queue_id", name="pk_queue_states"),
        sa.ForeignKeyConstraint(["queue_id"], ["queues.id"], name="fk_queue_states_queue_id_queues"),
    )
    op.create_table(
        "queue_workers",
        sa.Column("queue_id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("worker_id", sa.String(36), nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("job_id", sa.String(36), nullable=True),
        sa.Column("received_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("queue_id", "worker_id", name="pk_queue_workers"),
        sa.ForeignKeyConstraint(["queue_id"], ["queues.id"], name="fk_queue_workers_queue_id_queues"),
    )


def _keys_and_progress() -> None:
    op.create_table(
        "monitor_progress",
        sa.Column("topic", sa.String(100), nullable=False),
        sa.Column("partition", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("applied_through_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("topic", "partition", name="pk_monitor_progress"),
    )
    op.create_table(
        "monitor_keys",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("heartbeat_id", sa.Integer, nullable=True),
        sa.Column("queue_id", sa.Integer, nullable=True),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("created_at", _time, nullable=False),
        sa.Column("expires_at", _time, nullable=True),
        sa.Column("revoked_at", _time, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_monitor_keys"),
        sa.UniqueConstraint("digest", name="uq_monitor_keys_digest"),
        sa.CheckConstraint(
            "(heartbeat_id IS NULL) <> (queue_id IS NULL)", name="ck_monitor_keys_one_monitor"
        ),
        sa.ForeignKeyConstraint(
            ["heartbeat_id"], ["heartbeats.id"], name="fk_monitor_keys_heartbeat_id_heartbeats"
        ),
        sa.ForeignKeyConstraint(["queue_id"], ["queues.id"], name="fk_monitor_keys_queue_id_queues"),
    )
    op.create_index("ix_monitor_keys_heartbeat_id", "monitor_keys", ["heartbeat_id"])
    op.create_index("ix_monitor_keys_queue_id", "monitor_keys", ["queue_id"])


def _recorded_deployments() -> None:
    op.create_table(
        "recorded_deployments",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("environment_id", sa.Integer, nullable=False),
        sa.Column("deployment_id", sa.String(36), nullable=False),
        sa.Column("version", sa.String(128), nullable=False),
        sa.Column("service", sa.String(100), nullable=True),
        sa.Column("service_namespace", sa.String(100), nullable=True),
        sa.Column("commit_sha", sa.String(64), nullable=True),
        sa.Column("note", sa.String(1000), nullable=True),
        sa.Column("deployed_at", _time, nullable=False),
        sa.Column("recorded_at", _time, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_recorded_deployments"),
        sa.UniqueConstraint("environment_id", "deployment_id", name="uq_recorded_deployments_environment_id"),
        sa.ForeignKeyConstraint(
            ["environment_id"],
            ["environments.id"],
            name="fk_recorded_deployments_environment_id_environments",
        ),
    )
    op.create_index(
        "ix_recorded_deployments_deployed_at", "recorded_deployments", ["environment_id", "deployed_at"]
    )

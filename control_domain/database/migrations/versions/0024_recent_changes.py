"""Indexes by which live pages find the monitors that were changed lately, and the overview what happened when."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    op.create_index(op.f("ix_heartbeat_states_since_ms"), "heartbeat_states", ["since_ms"])
    op.create_index(op.f("ix_heartbeat_states_last_signal_ms"), "heartbeat_states", ["last_signal_ms"])
    op.create_index(op.f("ix_queue_states_received_ms"), "queue_states", ["received_ms"])
    op.create_index(op.f("ix_queue_workers_received_ms"), "queue_workers", ["received_ms"])
    op.create_index("ix_deployments_created_at", "deployments", ["account_id", "created_at"])
    op.create_index("ix_alert_incidents_started_at", "alert_incidents", ["account_id", "started_at"])
    op.create_index("ix_alert_incidents_resolved_at", "alert_incidents", ["account_id", "resolved_at"])
    failing = sa.text("state IN ('late', 'down')")
    op.create_index(
        "ix_heartbeat_states_failing",
        "heartbeat_states",
        ["heartbeat_id"],
        sqlite_where=failing,
        postgresql_where=failing,
    )
    failed = sa.text("failed_ms IS NOT NULL OR timed_out_ms IS NOT NULL")
    op.create_index(
        "ix_heartbeat_runs_failed",
        "heartbeat_runs",
        ["first_ms"],
        sqlite_where=failed,
        postgresql_where=failed,
    )

"""Finds the failed runs of one heartbeat: those of other accounts do not make the time line slower."""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    failed = sa.text("failed_ms IS NOT NULL OR timed_out_ms IS NOT NULL")
    op.drop_index("ix_heartbeat_runs_failed", "heartbeat_runs")
    op.create_index(
        "ix_heartbeat_runs_failed",
        "heartbeat_runs",
        ["heartbeat_id", "first_ms"],
        sqlite_where=failed,
        postgresql_where=failed,
    )

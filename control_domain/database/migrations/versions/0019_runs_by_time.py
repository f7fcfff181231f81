"""An index of the runs of one heartbeat by time, for the pages of their list."""

from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.create_index("ix_heartbeat_runs_heartbeat_id", "heartbeat_runs", ["heartbeat_id", "first_ms"])

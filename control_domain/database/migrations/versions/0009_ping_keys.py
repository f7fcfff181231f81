"""Add ping keys, exit status and output of runs, and the state of heartbeats that outlives pauses and pruned runs."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    # Heartbeats that are there already get their ping key when they are first shown.
    op.add_column("monitor_keys", sa.Column("sealing_key_id", sa.String(8), nullable=True))
    op.add_column("monitor_keys", sa.Column("sealed", sa.LargeBinary, nullable=True))
    op.add_column("heartbeat_states", sa.Column("judged_from_ms", sa.BigInteger, nullable=True))
    op.add_column("heartbeat_states", sa.Column("missed_ms", sa.Text, nullable=True))
    op.add_column("heartbeat_states", sa.Column("pings", sa.Text, nullable=True))
    op.add_column("heartbeat_runs", sa.Column("exit_status", sa.Integer, nullable=True))
    op.add_column("heartbeat_runs", sa.Column("output", sa.Text, nullable=True))
    _keep_down()


def _keep_down() -> None:
    """Which failures made a heartbeat down was not written: they count as of then, so that only a success ends it."""
    connection = op.get_bind()
    down = connection.execute(
        sa.text(
            "SELECT heartbeat_id, since_ms, failures_before_down FROM heartbeat_states "
            "JOIN heartbeats ON heartbeats.id = heartbeat_id WHERE state = 'down'"
        )
    ).all()
    change = sa.text("UPDATE heartbeat_states SET missed_ms = :missed WHERE heartbeat_id = :number")
    for number, since_ms, failures in down:
        connection.execute(change, {"missed": json.dumps([since_ms] * failures), "number": number})

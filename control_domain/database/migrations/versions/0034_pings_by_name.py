"""Ping keys of environments, the log of heartbeats, and the heartbeats that pings have created."""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"

_time = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "environment_ping_keys",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("environment_id", sa.Integer, nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("created_at", _time, nullable=False),
        sa.Column("expires_at", _time, nullable=True),
        sa.Column("revoked_at", _time, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_environment_ping_keys")),
        sa.UniqueConstraint("digest", name=op.f("uq_environment_ping_keys_digest")),
        sa.ForeignKeyConstraint(
            ["environment_id"],
            ["environments.id"],
            name=op.f("fk_environment_ping_keys_environment_id_environments"),
        ),
        sqlite_autoincrement=True,
    )
    op.create_index(
        op.f("ix_environment_ping_keys_environment_id"), "environment_ping_keys", ["environment_id"]
    )
    op.create_table(
        "heartbeat_log_entries",
        sa.Column("heartbeat_id", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("entry_id", sa.String(36), nullable=False),
        sa.Column("run_id", sa.String(36), nullable=True),
        sa.Column("received_ms", sa.BigInteger, nullable=False),
        sa.Column("text", sa.Text, nullable=True),
        sa.PrimaryKeyConstraint("heartbeat_id", "entry_id", name=op.f("pk_heartbeat_log_entries")),
        sa.ForeignKeyConstraint(
            ["heartbeat_id"], ["heartbeats.id"], name=op.f("fk_heartbeat_log_entries_heartbeat_id_heartbeats")
        ),
    )
    op.create_index(
        "ix_heartbeat_log_entries_heartbeat_id", "heartbeat_log_entries", ["heartbeat_id", "received_ms"]
    )
    op.create_index("ix_heartbeat_log_entries_received_ms", "heartbeat_log_entries", ["received_ms"])
    op.create_table(
        "created_heartbeats",
        sa.Column("heartbeat_id", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("heartbeat_id", name=op.f("pk_created_heartbeats")),
        sa.ForeignKeyConstraint(
            ["heartbeat_id"], ["heartbeats.id"], name=op.f("fk_created_heartbeats_heartbeat_id_heartbeats")
        ),
    )

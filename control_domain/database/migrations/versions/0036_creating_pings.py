"""The pings that may create heartbeats and are applied, so that each of them creates one once."""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"


def upgrade() -> None:
    op.create_table(
        "creating_pings",
        sa.Column("ping_id", sa.String(36), nullable=False),
        sa.Column("heartbeat_id", sa.Integer, nullable=True),
        sa.Column("applied_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("ping_id", name=op.f("pk_creating_pings")),
    )
    op.create_index(op.f("ix_creating_pings_applied_ms"), "creating_pings", ["applied_ms"])

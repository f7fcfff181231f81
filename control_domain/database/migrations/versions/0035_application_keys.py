"""Ingest keys with names, and the sealed key with which deployed applications send telemetry."""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    op.add_column("ingest_keys", sa.Column("name", sa.String(100), nullable=True))
    op.add_column("ingest_keys", sa.Column("sealing_key_id", sa.String(8), nullable=True))
    op.add_column("ingest_keys", sa.Column("sealed", sa.LargeBinary(), nullable=True))

"""Add the host's own ID to repositories, and the name of what a host was told of a deployment."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    # Repositories that are there already learn theirs from their next delivery.
    op.add_column("repositories", sa.Column("host_id", sa.String(64), nullable=True))
    op.create_index("ix_repositories_host_id", "repositories", ["host_id"])
    op.add_column("installed_repositories", sa.Column("host_id", sa.String(64), nullable=True))
    op.add_column("deployments", sa.Column("reported_context", sa.String(300), nullable=True))

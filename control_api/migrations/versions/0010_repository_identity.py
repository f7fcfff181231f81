"""Add the host's own ID to repositories: deliveries of other repositories are told apart by it."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    # Repositories that are there already learn theirs from their next delivery.
    op.add_column("repositories", sa.Column("host_id", sa.String(64), nullable=True))
    op.create_index("ix_repositories_host_id", "repositories", ["host_id"])
    op.add_column("installed_repositories", sa.Column("host_id", sa.String(64), nullable=True))

"""The commits that a waiting deployment would bring live."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0029"


def upgrade() -> None:
    op.add_column("deployments", sa.Column("new_commits", sa.Text(), nullable=True))
    op.add_column("deployments", sa.Column("new_commits_since", sa.String(64), nullable=True))

"""When each step of a deployment began."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0024"


def upgrade() -> None:
    op.add_column("deployments", sa.Column("progress", sa.Text(), nullable=True))

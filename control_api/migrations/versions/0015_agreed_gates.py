"""Keep with each operation of a configuration which gates a second person agreed to lower."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    # Null: nothing. What was applied before and lowers a gate needs a new review.
    op.add_column("config_operations", sa.Column("agreed", sa.Text, nullable=True))

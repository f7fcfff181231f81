"""Store with each operation of a configuration the gates that a second person agreed to lower."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    # Null: no gates. An operation from before this migration that lowers a gate needs a new review.
    op.add_column("config_operations", sa.Column("agreed", sa.Text, nullable=True))

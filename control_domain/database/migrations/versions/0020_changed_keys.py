"""The keys of which a repeated response informs the edges again."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.add_column("idempotent_answers", sa.Column("changed_keys", sa.LargeBinary, nullable=True))

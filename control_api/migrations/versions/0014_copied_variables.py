"""Note where a preview has its variables from, for a gate that is turned on there later."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    # Without a foreign key: SQLite would copy the table to add one.
    op.add_column("environments", sa.Column("variables_of_id", sa.Integer, nullable=True))
    # 0: nobody wrote it down, so that any environment of the project may be the source.
    op.execute(
        sa.text(
            "UPDATE environments SET variables_of_id = 0 WHERE type = 'preview' "
            "AND id IN (SELECT environment_id FROM variable_sets WHERE count > 0)"
        )
    )

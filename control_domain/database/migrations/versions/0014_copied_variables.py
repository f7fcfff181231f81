"""Store the source environment of a preview's variables, for a gate that the source gets later."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    # Without a foreign key: SQLite would copy the table to add one.
    op.add_column("environments", sa.Column("variables_of_id", sa.Integer, nullable=True))
    # 0: the source was not stored, so any environment of the project may be the source.
    op.execute(
        sa.text(
            "UPDATE environments SET variables_of_id = 0 WHERE type = 'preview' "
            "AND id IN (SELECT environment_id FROM variable_sets WHERE count > 0)"
        )
    )

"""Store who replayed a delivery that waits, and forget sources of previews' variables that are previews."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    for table in ("waiting_pushes", "closing_previews"):
        # Without foreign keys: SQLite would copy the table to add one.
        op.add_column(table, sa.Column("person_id", sa.Integer, nullable=True))
        op.add_column(table, sa.Column("token_id", sa.Integer, nullable=True))
        op.add_column(table, sa.Column("request_id", sa.String(128), nullable=True))
    _forget_sources()


def _forget_sources() -> None:
    """Mark copies as of any environment of the project if their source is a preview or was removed, or if the copy may
    have waited for an approval. They wait for approval if one of the environments does."""
    op.execute(
        sa.text(
            "UPDATE environments SET variables_of_id = 0 WHERE variables_of_id IS NOT NULL AND type = 'preview' "
            "AND (variables_need_approval OR variables_of_id NOT IN "
            "(SELECT id FROM (SELECT id FROM environments WHERE type <> 'preview') AS lasting))"
        )
    )
    op.execute(
        sa.text(
            "UPDATE environments SET deploys_need_approval = true WHERE variables_of_id = 0 "
            "AND project_id IN (SELECT project_id FROM (SELECT project_id FROM environments "
            "WHERE deploys_need_approval AND type <> 'preview') AS gated)"
        )
    )

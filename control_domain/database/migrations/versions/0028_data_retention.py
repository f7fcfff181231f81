"""How long kinds of data are kept, once somebody has changed it."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    op.create_table(
        "data_retention",
        sa.Column("kind", sa.String(30), nullable=False),
        sa.Column("days", sa.Integer, nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("changed_by_id", sa.Integer, nullable=True),
        sa.PrimaryKeyConstraint("kind", name=op.f("pk_data_retention")),
        sa.ForeignKeyConstraint(
            ["changed_by_id"], ["people.id"], name=op.f("fk_data_retention_changed_by_id_people")
        ),
    )

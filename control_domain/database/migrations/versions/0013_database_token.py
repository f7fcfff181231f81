"""Give the database a random token, by which a deployer knows the database whose applications it runs."""

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    table = op.create_table(
        "database_token",
        sa.Column("id", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("token", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_database_token")),
    )
    op.bulk_insert(table, [{"id": 1, "token": secrets.token_hex(16)}])

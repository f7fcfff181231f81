"""Links by which anybody may read the report of a site."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"

_time = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "report_shares",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("site_id", sa.Integer, nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("created_by_id", sa.Integer, nullable=False),
        sa.Column("created_at", _time, nullable=False),
        sa.Column("expires_at", _time, nullable=True),
        sa.Column("revoked_at", _time, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_report_shares")),
        sa.UniqueConstraint("digest", name=op.f("uq_report_shares_digest")),
        sa.ForeignKeyConstraint(["site_id"], ["sites.id"], name=op.f("fk_report_shares_site_id_sites")),
        sa.ForeignKeyConstraint(
            ["created_by_id"], ["people.id"], name=op.f("fk_report_shares_created_by_id_people")
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_report_shares_site_id", "report_shares", ["site_id", "id"])

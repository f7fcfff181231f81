"""Sites and their goals."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_time = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "sites",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("public_id", sa.String(40), nullable=False),
        sa.Column("project_id", sa.Integer, nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("timezone", sa.String(64), nullable=False),
        sa.Column("domains", sa.Text, nullable=False),
        sa.Column("created_at", _time, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_sites"),
        sa.UniqueConstraint("public_id", name="uq_sites_public_id"),
        sa.UniqueConstraint("project_id", "name", name="uq_sites_project_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_sites_project_id_projects"),
    )
    op.create_table(
        "goals",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("site_id", sa.Integer, nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("event", sa.String(255), nullable=True),
        sa.Column("path", sa.String(2048), nullable=True),
        sa.Column("created_at", _time, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_goals"),
        sa.UniqueConstraint("site_id", "name", name="uq_goals_site_id"),
        sa.CheckConstraint("(event IS NULL) <> (path IS NULL)", name="ck_goals_one_target"),
        sa.ForeignKeyConstraint(["site_id"], ["sites.id"], name="fk_goals_site_id_sites"),
    )

"""The status and the assignee of groups of exceptions."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

_time = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "exception_statuses",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("environment_id", sa.Integer, nullable=False),
        sa.Column("group_id", sa.String(16), nullable=False),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("assignee_id", sa.Integer, nullable=True),
        sa.Column("resolved_at", _time, nullable=True),
        sa.Column("changed_at", _time, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_exception_statuses")),
        sa.UniqueConstraint("environment_id", "group_id", name=op.f("uq_exception_statuses_environment_id")),
        sa.ForeignKeyConstraint(
            ["environment_id"],
            ["environments.id"],
            name=op.f("fk_exception_statuses_environment_id_environments"),
        ),
        sa.ForeignKeyConstraint(
            ["assignee_id"], ["people.id"], name=op.f("fk_exception_statuses_assignee_id_people")
        ),
    )

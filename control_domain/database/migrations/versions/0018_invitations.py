"""Invitations to accounts; an index of the audit log by subject."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"

_time = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "invitations",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("account_id", sa.Integer, nullable=False),
        sa.Column("email", sa.String(254), nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
        sa.Column("project_roles", sa.Text, nullable=False),
        sa.Column("scopes", sa.String(200), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("invited_by_id", sa.Integer, nullable=False),
        sa.Column("created_at", _time, nullable=False),
        sa.Column("expires_at", _time, nullable=False),
        sa.Column("accepted_at", _time, nullable=True),
        sa.Column("accepted_by_id", sa.Integer, nullable=True),
        sa.Column("revoked_at", _time, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_invitations")),
        sa.UniqueConstraint("digest", name=op.f("uq_invitations_digest")),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_invitations_account_id_accounts")
        ),
        sa.ForeignKeyConstraint(
            ["invited_by_id"], ["people.id"], name=op.f("fk_invitations_invited_by_id_people")
        ),
        sa.ForeignKeyConstraint(
            ["accepted_by_id"], ["people.id"], name=op.f("fk_invitations_accepted_by_id_people")
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_invitations_account_id", "invitations", ["account_id", "id"])
    op.create_index("ix_audit_entries_subject", "audit_entries", ["account_id", "subject", "id"])

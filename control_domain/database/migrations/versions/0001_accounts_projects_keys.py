"""Accounts, people, tokens, projects, environments and ingest keys."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_time = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "accounts",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("public_id", sa.String(40), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("slug", sa.String(100), nullable=False),
        sa.Column("plan", sa.String(40), nullable=False),
        sa.Column("ingest_rate", sa.Float, nullable=False),
        sa.Column("ingest_burst", sa.Integer, nullable=False),
        sa.Column("created_at", _time, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_accounts"),
        sa.UniqueConstraint("public_id", name="uq_accounts_public_id"),
        sa.UniqueConstraint("slug", name="uq_accounts_slug"),
    )
    op.create_table(
        "people",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("public_id", sa.String(40), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("email", sa.String(254), nullable=False),
        sa.Column("created_at", _time, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_people"),
        sa.UniqueConstraint("public_id", name="uq_people_public_id"),
        sa.UniqueConstraint("email", name="uq_people_email"),
    )
    op.create_table(
        "memberships",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("account_id", sa.Integer, nullable=False),
        sa.Column("person_id", sa.Integer, nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_memberships"),
        sa.UniqueConstraint("account_id", "person_id", name="uq_memberships_account_id"),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name="fk_memberships_account_id_accounts"),
        sa.ForeignKeyConstraint(["person_id"], ["people.id"], name="fk_memberships_person_id_people"),
    )
    op.create_index("ix_memberships_person_id", "memberships", ["person_id"])
    op.create_table(
        "api_tokens",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("account_id", sa.Integer, nullable=False),
        sa.Column("person_id", sa.Integer, nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("scopes", sa.String(200), nullable=False),
        sa.Column("created_at", _time, nullable=False),
        sa.Column("expires_at", _time, nullable=True),
        sa.Column("revoked_at", _time, nullable=True),
        sa.Column("last_used_at", _time, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_api_tokens"),
        sa.UniqueConstraint("digest", name="uq_api_tokens_digest"),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name="fk_api_tokens_account_id_accounts"),
        sa.ForeignKeyConstraint(["person_id"], ["people.id"], name="fk_api_tokens_person_id_people"),
    )
    op.create_index("ix_api_tokens_account_id", "api_tokens", ["account_id"])
    op.create_table(
        "projects",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("public_id", sa.String(40), nullable=False),
        sa.Column("account_id", sa.Integer, nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("slug", sa.String(100), nullable=False),
        sa.Column("created_at", _time, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_projects"),
        sa.UniqueConstraint("public_id", name="uq_projects_public_id"),
        sa.UniqueConstraint("account_id", "slug", name="uq_projects_account_id"),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name="fk_projects_account_id_accounts"),
    )
    op.create_table(
        "environments",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("public_id", sa.String(40), nullable=False),
        sa.Column("project_id", sa.Integer, nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("slug", sa.String(100), nullable=False),
        sa.Column("type", sa.String(20), nullable=False),
        sa.Column("created_at", _time, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_environments"),
        sa.UniqueConstraint("public_id", name="uq_environments_public_id"),
        sa.UniqueConstraint("project_id", "slug", name="uq_environments_project_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_environments_project_id_projects"),
    )
    op.create_table(
        "ingest_keys",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("environment_id", sa.Integer, nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("created_at", _time, nullable=False),
        sa.Column("expires_at", _time, nullable=True),
        sa.Column("revoked_at", _time, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_ingest_keys"),
        sa.UniqueConstraint("digest", name="uq_ingest_keys_digest"),
        sa.ForeignKeyConstraint(
            ["environment_id"], ["environments.id"], name="fk_ingest_keys_environment_id_environments"
        ),
    )
    op.create_index("ix_ingest_keys_environment_id", "ingest_keys", ["environment_id"])

"""Deployments, releases, repositories, variables, project roles, the audit log, and how environments run."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_time = sa.DateTime(timezone=True)
_ACTIVE = sa.text("status IN ('queued', 'deploying', 'running')")
_PENDING = sa.text("state = 'pending'")
_CONNECTED = sa.text("disconnected_at IS NULL")


def upgrade() -> None:
    _people_and_requests()
    _repositories()
    _variables()
    _deployments()
    _releases()
    _environments()


def _people_and_requests() -> None:
    op.create_table(
        "project_roles",
        sa.Column("project_id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("person_id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
        sa.ForeignKeyConstraint(["person_id"], ["people.id"], name="fk_project_roles_person_id_people"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_project_roles_project_id_projects"),
        sa.PrimaryKeyConstraint("project_id", "person_id", name="pk_project_roles"),
    )
    op.create_index("ix_project_roles_person_id", "project_roles", ["person_id"])
    op.create_table(
        "audit_entries",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("account_id", sa.Integer, nullable=True),
        sa.Column("at", _time, nullable=False),
        sa.Column("person_id", sa.Integer, nullable=True),
        sa.Column("token_id", sa.Integer, nullable=True),
        sa.Column("action", sa.String(60), nullable=False),
        sa.Column("subject", sa.String(100), nullable=False),
        sa.Column("details", sa.Text, nullable=False),
        sa.Column("source", sa.String(100), nullable=False),
        sa.Column("request_id", sa.String(128), nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name="fk_audit_entries_account_id_accounts"),
        sa.ForeignKeyConstraint(["person_id"], ["people.id"], name="fk_audit_entries_person_id_people"),
        sa.ForeignKeyConstraint(["token_id"], ["api_tokens.id"], name="fk_audit_entries_token_id_api_tokens"),
        sa.PrimaryKeyConstraint("id", name="pk_audit_entries"),
    )
    op.create_index("ix_audit_entries_account_id", "audit_entries", ["account_id", "id"])
    op.create_table(
        "idempotent_answers",
        sa.Column("caller", sa.String(100), nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("request_digest", sa.LargeBinary(32), nullable=False),
        sa.Column("status", sa.Integer, nullable=True),
        sa.Column("body", sa.LargeBinary, nullable=True),
        sa.Column("created_at", _time, nullable=False),
        sa.PrimaryKeyConstraint("caller", "key", name="pk_idempotent_answers"),
    )
    op.create_index("ix_idempotent_answers_created_at", "idempotent_answers", ["created_at"])


def _repositories() -> None:
    op.create_table(
        "repositories",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("project_id", sa.Integer, nullable=False),
        sa.Column("kind", sa.String(12), nullable=False),
        sa.Column("url", sa.String(500), nullable=False),
        sa.Column("branch", sa.String(200), nullable=False),
        sa.Column("created_at", _time, nullable=False),
        sa.Column("disconnected_at", _time, nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_repositories_project_id_projects"),
        sa.PrimaryKeyConstraint("id", name="pk_repositories"),
    )
    op.create_index("ix_repositories_project_id", "repositories", ["project_id"])
    op.create_index(
        "uq_repositories_connected",
        "repositories",
        ["project_id"],
        unique=True,
        sqlite_where=_CONNECTED,
        postgresql_where=_CONNECTED,
    )


def _variables() -> None:
    op.create_table(
        "variable_sets",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("environment_id", sa.Integer, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("key_id", sa.String(8), nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("set_by_id", sa.Integer, nullable=True),
        sa.Column("created_at", _time, nullable=False),
        sa.ForeignKeyConstraint(
            ["environment_id"], ["environments.id"], name="fk_variable_sets_environment_id_environments"
        ),
        sa.ForeignKeyConstraint(["set_by_id"], ["people.id"], name="fk_variable_sets_set_by_id_people"),
        sa.PrimaryKeyConstraint("id", name="pk_variable_sets"),
        sa.UniqueConstraint("environment_id", "version", name="uq_variable_sets_environment_id"),
    )
    op.create_table(
        "variable_changes",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("environment_id", sa.Integer, nullable=False),
        sa.Column("state", sa.String(12), nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("key_id", sa.String(8), nullable=True),
        sa.Column("sealed", sa.LargeBinary, nullable=True),
        sa.Column("asked_by_id", sa.Integer, nullable=True),
        sa.Column("decided_by_id", sa.Integer, nullable=True),
        sa.Column("created_at", _time, nullable=False),
        sa.Column("decided_at", _time, nullable=True),
        sa.ForeignKeyConstraint(
            ["asked_by_id"], ["people.id"], name="fk_variable_changes_asked_by_id_people"
        ),
        sa.ForeignKeyConstraint(
            ["decided_by_id"], ["people.id"], name="fk_variable_changes_decided_by_id_people"
        ),
        sa.ForeignKeyConstraint(
            ["environment_id"], ["environments.id"], name="fk_variable_changes_environment_id_environments"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_variable_changes"),
    )
    op.create_index("ix_variable_changes_environment_id", "variable_changes", ["environment_id", "id"])
    op.create_index(
        "uq_variable_changes_pending",
        "variable_changes",
        ["environment_id"],
        unique=True,
        sqlite_where=_PENDING,
        postgresql_where=_PENDING,
    )


def _deployments() -> None:
    op.create_table(
        "deployments",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("account_id", sa.Integer, nullable=False),
        sa.Column("project_id", sa.Integer, nullable=False),
        sa.Column("repository_id", sa.Integer, nullable=False),
        sa.Column("environment_id", sa.Integer, nullable=True),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("trigger", sa.String(20), nullable=False),
        sa.Column("revision", sa.String(64), nullable=True),
        sa.Column("ref", sa.String(200), nullable=True),
        sa.Column("promoted_from_id", sa.Integer, nullable=True),
        sa.Column("rolled_back_to_id", sa.Integer, nullable=True),
        sa.Column("note", sa.String(500), nullable=True),
        sa.Column("asked_by_id", sa.Integer, nullable=True),
        sa.Column("needs_approval", sa.Boolean, nullable=False),
        sa.Column("decided_by_id", sa.Integer, nullable=True),
        sa.Column("decided_at", _time, nullable=True),
        sa.Column("approved_revision", sa.String(64), nullable=True),
        sa.Column("approved_variables_id", sa.Integer, nullable=True),
        sa.Column("created_at", _time, nullable=False),
        sa.Column("finished_at", _time, nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name="fk_deployments_account_id_accounts"),
        sa.ForeignKeyConstraint(
            ["approved_variables_id"],
            ["variable_sets.id"],
            name="fk_deployments_approved_variables_id_variable_sets",
        ),
        sa.ForeignKeyConstraint(["asked_by_id"], ["people.id"], name="fk_deployments_asked_by_id_people"),
        sa.ForeignKeyConstraint(["decided_by_id"], ["people.id"], name="fk_deployments_decided_by_id_people"),
        sa.ForeignKeyConstraint(
            ["environment_id"], ["environments.id"], name="fk_deployments_environment_id_environments"
        ),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_deployments_project_id_projects"),
        sa.ForeignKeyConstraint(
            ["promoted_from_id"], ["deployments.id"], name="fk_deployments_promoted_from_id_deployments"
        ),
        sa.ForeignKeyConstraint(
            ["repository_id"], ["repositories.id"], name="fk_deployments_repository_id_repositories"
        ),
        sa.ForeignKeyConstraint(
            ["rolled_back_to_id"], ["deployments.id"], name="fk_deployments_rolled_back_to_id_deployments"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_deployments"),
    )
    op.create_index("ix_deployments_account_id", "deployments", ["account_id", "id"])
    op.create_index("ix_deployments_environment_id", "deployments", ["environment_id", "id"])
    op.create_index("ix_deployments_project_id", "deployments", ["project_id", "id"])
    op.create_index(
        "uq_deployments_active",
        "deployments",
        ["environment_id"],
        unique=True,
        sqlite_where=_ACTIVE,
        postgresql_where=_ACTIVE,
    )
    for column in ("promoted_from_id", "rolled_back_to_id"):
        is_set = sa.text(f"{column} IS NOT NULL")
        op.create_index(
            f"ix_deployments_{column}",
            "deployments",
            [column],
            sqlite_where=is_set,
            postgresql_where=is_set,
        )
    op.create_table(
        "deployment_lines",
        # SQLite counts rows in an INTEGER key alone.
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=False),
        sa.Column("deployment_id", sa.Integer, nullable=False),
        sa.Column("at", sa.String(24), nullable=False),
        sa.Column("stream", sa.String(6), nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(
            ["deployment_id"], ["deployments.id"], name="fk_deployment_lines_deployment_id_deployments"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_deployment_lines"),
    )
    op.create_index("ix_deployment_lines_deployment_id", "deployment_lines", ["deployment_id", "id"])


def _releases() -> None:
    op.create_table(
        "releases",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("environment_id", sa.Integer, nullable=False),
        sa.Column("deployment_id", sa.Integer, nullable=False),
        sa.Column("revision", sa.String(64), nullable=False),
        sa.Column("artefact", sa.String(500), nullable=False),
        sa.Column("variables_id", sa.Integer, nullable=True),
        sa.Column("created_at", _time, nullable=False),
        sa.Column("removed_at", _time, nullable=True),
        sa.ForeignKeyConstraint(
            ["deployment_id"], ["deployments.id"], name="fk_releases_deployment_id_deployments"
        ),
        sa.ForeignKeyConstraint(
            ["environment_id"], ["environments.id"], name="fk_releases_environment_id_environments"
        ),
        sa.ForeignKeyConstraint(
            ["variables_id"], ["variable_sets.id"], name="fk_releases_variables_id_variable_sets"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_releases"),
        sa.UniqueConstraint("deployment_id", name="uq_releases_deployment_id"),
    )
    op.create_index("ix_releases_environment_id", "releases", ["environment_id", "id"])
    op.create_table(
        "live_releases",
        sa.Column("environment_id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("release_id", sa.Integer, nullable=False),
        sa.Column("since", _time, nullable=False),
        sa.ForeignKeyConstraint(
            ["environment_id"], ["environments.id"], name="fk_live_releases_environment_id_environments"
        ),
        sa.ForeignKeyConstraint(["release_id"], ["releases.id"], name="fk_live_releases_release_id_releases"),
        sa.PrimaryKeyConstraint("environment_id", name="pk_live_releases"),
        sa.UniqueConstraint("release_id", name="uq_live_releases_release_id"),
    )


def _environments() -> None:
    op.create_table(
        "environment_locks",
        sa.Column("environment_id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("reason", sa.String(500), nullable=False),
        sa.Column("person_id", sa.Integer, nullable=True),
        sa.Column("locked_at", _time, nullable=False),
        sa.ForeignKeyConstraint(
            ["environment_id"], ["environments.id"], name="fk_environment_locks_environment_id_environments"
        ),
        sa.ForeignKeyConstraint(["person_id"], ["people.id"], name="fk_environment_locks_person_id_people"),
        sa.PrimaryKeyConstraint("environment_id", name="pk_environment_locks"),
    )
    op.add_column(
        "environments", sa.Column("position", sa.Integer, server_default=sa.text("1"), nullable=False)
    )
    op.add_column("environments", sa.Column("branch", sa.String(200), nullable=True))
    op.add_column(
        "environments", sa.Column("desired_replicas", sa.Integer, server_default=sa.text("1"), nullable=False)
    )
    op.add_column("environments", sa.Column("state", sa.String(12), server_default="running", nullable=False))
    op.add_column("environments", sa.Column("deploy_window", sa.Text, nullable=True))
    op.add_column(
        "environments",
        sa.Column("deploys_need_approval", sa.Boolean, server_default=sa.false(), nullable=False),
    )
    op.add_column(
        "environments",
        sa.Column("variables_need_approval", sa.Boolean, server_default=sa.false(), nullable=False),
    )
    # Until now there was one environment, made at the first start.
    op.execute(
        "UPDATE environments SET position = "
        "CASE type WHEN 'production' THEN 3 WHEN 'staging' THEN 2 WHEN 'preview' THEN 0 ELSE 1 END"
    )

"""Webhooks: secrets, deliveries, what waits, installations of the Git host's application, and what no preview gets."""

import re

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_time = sa.DateTime(timezone=True)


def upgrade() -> None:
    _repositories()
    for name, length in (("pushed_revision", 64), ("pushed_from", 64), ("reported", 12)):
        op.add_column("deployments", sa.Column(name, sa.String(length), nullable=True))
    pushed = sa.text("trigger IN ('push', 'pull_request')")
    op.create_index(
        "ix_deployments_reported",
        "deployments",
        ["reported", "created_at"],
        sqlite_where=pushed,
        postgresql_where=pushed,
    )
    _secrets()
    _deliveries()
    _waiting()
    _installations()
    table = "protected_variables"
    op.create_table(
        table,
        sa.Column("environment_id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        _reference(table, "environment_id", "environments"),
        sa.PrimaryKeyConstraint("environment_id", "name", name=f"pk_{table}"),
    )


def _reference(table: str, column: str, to: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{to}.id"], name=f"fk_{table}_{column}_{to}")


def _repositories() -> None:
    op.add_column("repositories", sa.Column("full_name", sa.String(500), nullable=True))
    for name, default in (
        ("push_deploys", sa.true()),
        ("allows_forks", sa.false()),
        ("is_sample", sa.false()),
    ):
        op.add_column("repositories", sa.Column(name, sa.Boolean, server_default=default, nullable=False))
    op.create_index("ix_repositories_full_name", "repositories", ["full_name"])
    repositories = sa.table("repositories", sa.column("id"), sa.column("url"), sa.column("full_name"))
    connection = op.get_bind()
    for number, url in connection.execute(sa.select(repositories.c.id, repositories.c.url)).all():
        # `https://host/owner/name.git`, `ssh://git@host:22/owner/name`, `git@host:owner/name`.
        found = re.fullmatch(r"(?:https|ssh)://[^/]+/+(.+)|[^/:@]+@(?:\[[^\]]+\]|[^/:]+):/*(.+)", url)
        if found is not None:
            name = (found[1] or found[2]).strip("/").removesuffix(".git").lower()
            connection.execute(
                repositories.update().where(repositories.c.id == number).values(full_name=name)
            )


def _secrets() -> None:
    table = "webhook_secrets"
    op.create_table(
        table,
        sa.Column("repository_id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("key_id", sa.String(8), nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("created_at", _time, nullable=False),
        _reference(table, "repository_id", "repositories"),
        sa.PrimaryKeyConstraint("repository_id", name=f"pk_{table}"),
    )


def _deliveries() -> None:
    table = "webhook_deliveries"
    op.create_table(
        table,
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("repository_id", sa.Integer, nullable=True),
        sa.Column("scope", sa.String(20), nullable=False),
        sa.Column("delivery", sa.String(255), nullable=False),
        sa.Column("is_first", sa.Boolean, nullable=False),
        sa.Column("kind", sa.String(12), nullable=False),
        sa.Column("event", sa.String(100), nullable=False),
        sa.Column("headers", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("http_status", sa.Integer, nullable=False),
        sa.Column("answer", sa.String(30), nullable=False),
        sa.Column("deployment_id", sa.Integer, nullable=True),
        sa.Column("reason", sa.Text, nullable=True),
        sa.Column("replay_of", sa.Integer, nullable=True),
        sa.Column("received_at", _time, nullable=False),
        _reference(table, "repository_id", "repositories"),
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
        # As the heartbeats' of 0006: a delivery that is forgotten leaves its number to nobody.
        sqlite_autoincrement=True,
    )
    first = sa.text("is_first")
    op.create_index(
        f"uq_{table}_seen",
        table,
        ["scope", "delivery"],
        unique=True,
        sqlite_where=first,
        postgresql_where=first,
    )
    op.create_index(f"ix_{table}_received_at", table, ["received_at"])
    op.create_index(f"ix_{table}_repository_id", table, ["repository_id", "id"])


def _waiting() -> None:
    table = "waiting_pushes"
    op.create_table(
        table,
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("environment_id", sa.Integer, nullable=False),
        sa.Column("repository_id", sa.Integer, nullable=False),
        sa.Column("branch", sa.String(200), nullable=False),
        sa.Column("trigger", sa.String(20), nullable=False),
        sa.Column("pushed_revision", sa.String(64), nullable=True),
        sa.Column("pushed_from", sa.String(64), nullable=True),
        sa.Column("note", sa.String(500), nullable=True),
        sa.Column("source", sa.String(100), nullable=False),
        sa.Column("created_at", _time, nullable=False),
        _reference(table, "environment_id", "environments"),
        _reference(table, "repository_id", "repositories"),
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
        sa.UniqueConstraint("environment_id", "branch", name=f"uq_{table}_environment_id"),
    )
    op.create_index(f"ix_{table}_repository_id", table, ["repository_id"])
    table = "closing_previews"
    op.create_table(
        table,
        sa.Column("environment_id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("source", sa.String(100), nullable=False),
        sa.Column("created_at", _time, nullable=False),
        _reference(table, "environment_id", "environments"),
        sa.PrimaryKeyConstraint("environment_id", name=f"pk_{table}"),
    )


def _installations() -> None:
    op.create_table(
        "git_installations",
        sa.Column("id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("login", sa.String(200), nullable=False),
        sa.Column("suspended_at", _time, nullable=True),
        sa.Column("created_at", _time, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_git_installations"),
    )
    table = "installed_repositories"
    op.create_table(
        table,
        sa.Column("installation_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("full_name", sa.String(300), nullable=False),
        _reference(table, "installation_id", "git_installations"),
        sa.PrimaryKeyConstraint("installation_id", "full_name", name=f"pk_{table}"),
    )
    op.create_index(f"ix_{table}_full_name", table, ["full_name"])

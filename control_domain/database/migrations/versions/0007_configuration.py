"""Configuration as code: reviews, their applications, and the operations of these."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_time = sa.DateTime(timezone=True)


def upgrade() -> None:
    _reviews()
    _applications()
    _operations()


def _reference(table: str, column: str, to: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{to}.id"], name=f"fk_{table}_{column}_{to}")


def _reviews() -> None:
    table = "config_reviews"
    op.create_table(
        table,
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("project_id", sa.Integer, nullable=False),
        sa.Column("fingerprint", sa.String(71), nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("key_id", sa.String(8), nullable=True),
        sa.Column("sealed", sa.LargeBinary, nullable=True),
        sa.Column("made_by_id", sa.Integer, nullable=True),
        sa.Column("created_at", _time, nullable=False),
        sa.Column("expires_at", _time, nullable=False),
        sa.Column("applied_at", _time, nullable=True),
        _reference(table, "project_id", "projects"),
        _reference(table, "made_by_id", "people"),
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
        # As the heartbeats' of 0006: the number of a review that was removed is not given again.
        sqlite_autoincrement=True,
    )
    op.create_index(f"ix_{table}_project_id", table, ["project_id", "id"])
    _partial_index(f"ix_{table}_sealed", table, "expires_at", "sealed IS NOT NULL")


def _applications() -> None:
    table = "config_applications"
    op.create_table(
        table,
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("project_id", sa.Integer, nullable=False),
        sa.Column("review_id", sa.Integer, nullable=False),
        sa.Column("status", sa.String(12), nullable=False),
        sa.Column("source", sa.String(100), nullable=False),
        sa.Column("person_id", sa.Integer, nullable=True),
        sa.Column("token_id", sa.Integer, nullable=True),
        sa.Column("request_id", sa.String(128), nullable=True),
        sa.Column("created_at", _time, nullable=False),
        sa.Column("finished_at", _time, nullable=True),
        sa.Column("holder", sa.String(40), nullable=True),
        sa.Column("leased_until", _time, nullable=True),
        _reference(table, "project_id", "projects"),
        _reference(table, "review_id", "config_reviews"),
        _reference(table, "person_id", "people"),
        _reference(table, "token_id", "api_tokens"),
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
        sa.UniqueConstraint("review_id", name=f"uq_{table}_review_id"),
    )
    op.create_index(f"ix_{table}_project_id", table, ["project_id", "id"])
    _partial_index(f"uq_{table}_running", table, "project_id", "status = 'running'", unique=True)


def _operations() -> None:
    table = "config_operations"
    op.create_table(
        table,
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("application_id", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("key_id", sa.String(8), nullable=True),
        sa.Column("sealed", sa.LargeBinary, nullable=True),
        sa.Column("status", sa.String(12), nullable=False),
        sa.Column("to_tell", sa.Text, nullable=True),
        sa.Column("error", sa.Text, nullable=True),
        sa.Column("attempts", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.Column("started_at", _time, nullable=True),
        sa.Column("finished_at", _time, nullable=True),
        _reference(table, "application_id", "config_applications"),
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
        sa.UniqueConstraint("application_id", "position", name=f"uq_{table}_application_id"),
    )


def _partial_index(name: str, table: str, column: str, condition: str, *, unique: bool = False) -> None:
    where = sa.text(condition)
    op.create_index(name, table, [column], unique=unique, sqlite_where=where, postgresql_where=where)

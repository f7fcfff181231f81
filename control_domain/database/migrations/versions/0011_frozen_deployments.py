"""Freeze what a deployment is carried out with, and bind approvals to it."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_time = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("deployments", sa.Column("frozen_at", _time, nullable=True))
    # Without foreign keys: SQLite would copy the table to add one.
    op.add_column("deployments", sa.Column("frozen_variables_id", sa.Integer, nullable=True))
    op.add_column("deployments", sa.Column("frozen_workflow_id", sa.Integer, nullable=True))
    # Null for what was approved before: the deployer asks for another approval.
    op.add_column("deployments", sa.Column("approved_digest", sa.String(64), nullable=True))
    op.add_column("deployments", sa.Column("commit_subject", sa.String(200), nullable=True))
    op.add_column("deployments", sa.Column("commit_author", sa.String(200), nullable=True))
    op.add_column("deployments", sa.Column("commit_looked_up_at", _time, nullable=True))
    op.add_column("deployments", sa.Column("commit_fault", sa.String(500), nullable=True))
    _gate_previews()


def _gate_previews() -> None:
    """Nobody wrote down where a preview has its variables from: where an environment of its project wants a second
    person, so does a preview that has variables; an empty set is none."""
    op.execute(
        sa.text(
            "UPDATE environments SET deploys_need_approval = true WHERE type = 'preview' "
            "AND id IN (SELECT environment_id FROM variable_sets WHERE count > 0) "
            "AND project_id IN (SELECT project_id FROM (SELECT project_id FROM environments "
            "WHERE deploys_need_approval AND type <> 'preview') AS gated)"
        )
    )

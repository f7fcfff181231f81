"""Several changes of variables wait side by side, each of its kind; an index for what waits for approval."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    is_update = sa.Column("is_update", sa.Boolean, server_default=sa.false(), nullable=False)
    op.add_column("variable_sets", is_update)
    table = "variable_changes"
    # Every change from before this migration replaces all variables.
    op.add_column(table, sa.Column("kind", sa.String(12), server_default="replace", nullable=False))
    op.add_column(table, sa.Column("names", sa.Text, nullable=True))
    # Only replacements are 'pending': an earlier version that still runs would take any for one.
    pending = "state IN ('pending', 'pending-part')"
    _partial_index("ix_variable_changes_pending", table, ["environment_id", "id"], pending)
    awaiting = "status = 'awaiting_approval'"
    _partial_index("ix_deployments_awaiting", "deployments", ["account_id", "id"], awaiting)


def _partial_index(name: str, table: str, columns: list[str], condition: str) -> None:
    where = sa.text(condition)
    op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)

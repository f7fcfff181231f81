"""Entry point of Alembic; runs on the connection that `upgrade.py` passes in."""

from alembic import context

from control_domain.database.base import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    # SQLite alters tables by copying them.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()

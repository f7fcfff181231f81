"""Alembic's entry: runs on the connection that `upgrade.py` hands over."""

from alembic import context

import control_api.accounts.tables
import control_api.audit.tables
import control_api.configuration.tables
import control_api.deployments.tables
import control_api.idempotency.tables
import control_api.monitors.tables
import control_api.projects.tables
import control_api.recorded_deployments.tables
import control_api.repositories.tables
import control_api.runtime.tables
import control_api.sites.tables
import control_api.variables.tables
import control_api.webhooks.tables
import control_api.workflows.tables  # noqa: F401  (fills the metadata)
from control_api.database import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    # SQLite alters tables by copying them.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()

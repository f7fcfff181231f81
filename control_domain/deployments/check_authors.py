"""Keeps authors of changed variables or workflows from approving a deployment that waits with these changes."""

from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.deployments.frozen import Inputs
from control_domain.refusals import Refused
from control_domain.tables.accounts import Person
from control_domain.tables.deployments import Deployment
from control_domain.tables.variables import VariableSet
from control_domain.tables.workflows import Workflow


async def check_authors(
    session: AsyncSession, deployment: Deployment, inputs: Inputs, person: Person
) -> None:
    """Raise `Refused` if the approver, or an unknown author, set the variables or the workflow that changed since the
    deployment was requested or last approved."""
    found = {
        "variables": await _find(session, VariableSet, inputs.variables_id),
        "workflow": await _find(session, Workflow, inputs.workflow_id),
    }
    frozen = {"variables": deployment.frozen_variables_id, "workflow": deployment.frozen_workflow_id}
    for name, row in found.items():
        if row is None:
            continue
        number, author, set_at = row
        # Deployments of an earlier version have no note of their inputs: compare times instead.
        # A preview and its first deployment have the same time.
        is_same = set_at <= deployment.created_at if deployment.frozen_at is None else number == frozen[name]
        if is_same:
            continue
        changed = f"the {name} since deployment {deployment.id} was asked for"
        if author is None:
            raise Refused(
                f"It is not known who changed {changed}, so nobody can be the second person. Cancel the deployment and "
                "ask for a new one; `--by EMAIL` names the author of the next change."
            )
        if author == person.id:
            raise Refused(f"{person.name} has changed {changed}: somebody else has to approve it.")


async def _find(
    session: AsyncSession, table: type[Any], number: int | None
) -> tuple[int, int | None, datetime] | None:
    """Return the row's number, author and time; None if there is no row."""
    if number is None:
        return None
    query = select(table.id, table.set_by_id, table.created_at).where(table.id == number)
    row = (await session.execute(query)).one_or_none()
    return None if row is None else (row[0], row[1], row[2])

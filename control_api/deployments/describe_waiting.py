"""What a second person is shown of deployments that wait: the commit, the variables and the workflow of each."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_api.accounts.tables import Person
from control_api.deployments.frozen import SHORTEST_DIGEST, Inputs, find_changed
from control_api.deployments.tables import Deployment
from control_api.variables.tables import VariableSet
from control_api.workflows.tables import Workflow
from pipeline_contracts.times import format_time


async def describe_waiting(session: AsyncSession, ids: Iterable[int]) -> Mapping[int, dict[str, Any]]:
    """Return by deployment what it would run if it was approved now.

    `digest` names all of it in an approval; null while the commit is not known. `changed_since_asked` names what is
    not as it was when the deployment began to wait; null where nothing is.
    """
    variables = (
        select(VariableSet.id)
        .where(VariableSet.environment_id == Deployment.environment_id)
        .order_by(VariableSet.version.desc())
        .limit(1)
        .scalar_subquery()
    )
    workflow = (
        select(Workflow.id)
        .where(Workflow.project_id == Deployment.project_id)
        .order_by(Workflow.version.desc())
        .limit(1)
        .scalar_subquery()
    )
    query = select(Deployment, variables, workflow).where(Deployment.id.in_(list(ids)))
    waiting = {}
    for deployment, variables_id, workflow_id in await session.execute(query):
        brings_id = deployment.rolled_back_to_id or deployment.promoted_from_id
        own = None if brings_id is not None else workflow_id
        source = deployment.repository_id, deployment.revision
        waiting[deployment.id] = (deployment, Inputs(*source, variables_id, own, brings_id))
    versions = {
        table: await _versions(session, table, (getattr(inputs, name) for _, inputs in waiting.values()))
        for table, name in ((VariableSet, "variables_id"), (Workflow, "workflow_id"))
    }
    return {number: _describe(*one, versions) for number, one in waiting.items()}


async def _versions(
    session: AsyncSession, table: type[Any], ids: Iterable[int | None]
) -> Mapping[int, dict[str, Any]]:
    query = (
        select(table.id, table.version, table.created_at, Person.email)
        .outerjoin(Person, Person.id == table.set_by_id)
        .where(table.id.in_({one for one in ids if one is not None}))
    )
    return {
        number: {"version": version, "set_at": format_time(set_at), "set_by": email}
        for number, version, set_at, email in await session.execute(query)
    }


def _describe(
    deployment: Deployment, inputs: Inputs, versions: Mapping[Any, Mapping[int, dict[str, Any]]]
) -> dict[str, Any]:
    return {
        "digest": None if inputs.revision is None else inputs.digest()[:SHORTEST_DIGEST],
        "commit_subject": deployment.commit_subject,
        "commit_author": deployment.commit_author,
        "commit_fault": deployment.commit_fault,
        "variables": versions[VariableSet].get(inputs.variables_id or 0),
        "workflow": versions[Workflow].get(inputs.workflow_id or 0),
        "changed_since_asked": find_changed(deployment, inputs) or None,
    }

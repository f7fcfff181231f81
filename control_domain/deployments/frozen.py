"""The inputs of a deployment, frozen so that an approval is of exactly these and an interruption changes none."""

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.projects.find import Place
from control_domain.refusals import Refused
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment
from control_domain.tables.variables import VariableSet
from control_domain.tables.workflows import Workflow

SHORTEST_DIGEST = 16
"""Digits of a digest that people are shown, and that name it: 64 bits."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What decides what a deployment runs. Variable sets and workflows are never changed: a new one has another ID."""

    repository_id: int
    revision: str | None
    """The commit; None: it is not known yet."""
    variables_id: int | None
    workflow_id: int | None
    """None: the commit has its own, in `pharos.yaml`, or the release that is brought."""
    brings_id: int | None
    """The deployment whose release is brought, with the workflow that it was built by."""

    def digest(self) -> str:
        """SHA-256 of all of them, in hexadecimal digits."""
        told = [self.repository_id, self.revision, self.variables_id, self.workflow_id, self.brings_id]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()


async def present_inputs(
    session: AsyncSession, place: Place, repository_id: int, revision: str | None, brings_id: int | None
) -> Inputs:
    """Return what a deployment to this environment would run now."""
    return await _present(session, place.environment.id, place.project.id, repository_id, revision, brings_id)


async def inputs_of(
    session: AsyncSession, deployment: Deployment, environment: Environment, revision: str | None
) -> Inputs:
    """Return what this deployment would run if it began now with this commit."""
    brings_id = deployment.rolled_back_to_id or deployment.promoted_from_id
    return await _present(
        session, environment.id, deployment.project_id, deployment.repository_id, revision, brings_id
    )


async def _present(
    session: AsyncSession,
    environment_id: int,
    project_id: int,
    repository_id: int,
    revision: str | None,
    brings_id: int | None,
) -> Inputs:
    variables = (
        select(VariableSet.id)
        .where(VariableSet.environment_id == environment_id)
        .order_by(VariableSet.version.desc())
        .limit(1)
        .scalar_subquery()
    )
    workflow = (
        select(Workflow.id)
        .where(Workflow.project_id == project_id)
        .order_by(Workflow.version.desc())
        .limit(1)
        .scalar_subquery()
    )
    variables_id, workflow_id = (await session.execute(select(variables, workflow))).one()
    return Inputs(
        repository_id, revision, variables_id, None if brings_id is not None else workflow_id, brings_id
    )


def freeze(inputs: Inputs, now: datetime) -> dict[str, Any]:
    """Return the columns of a deployment that is carried out with these inputs from now on."""
    return {
        "frozen_at": now,
        "frozen_variables_id": inputs.variables_id,
        "frozen_workflow_id": inputs.workflow_id,
    }


def find_changed(deployment: Deployment, inputs: Inputs) -> str:
    """Name what is not as it was frozen: `variables`, `variables and workflow`; empty where all is."""
    changed = [
        name
        for name, was, is_now in (
            ("variables", deployment.frozen_variables_id, inputs.variables_id),
            ("workflow", deployment.frozen_workflow_id, inputs.workflow_id),
        )
        if was != is_now
    ]
    return " and ".join(changed) if deployment.frozen_at is not None else ""


def tell_changed(deployment: Deployment, inputs: Inputs) -> str | None:
    """Tell the approver what changed; None where nothing did, and the digest need not be named."""
    if deployment.frozen_at is None:
        return "not known"
    return find_changed(deployment, inputs) or None


def check_shown(deployment: Deployment, inputs: Inputs, shown: str | None) -> None:
    """Raises `Refused` where these inputs are not those that the approver was shown."""
    changed = find_changed(deployment, inputs)
    look = "Look at it again with `pharos approvals`, and name the digest that it shows with --digest."
    if shown is None and deployment.frozen_at is None:
        raise Refused(
            f"Nobody kept what deployment {deployment.id} was to run when it was asked for: it did not wait for "
            f"approval then, or an earlier version of Pharos took it. {look}"
        )
    if shown is None and changed:
        raise Refused(
            f"The {changed} changed since deployment {deployment.id} began to wait, so that this is not what was asked "
            f"for. {look}"
        )
    if shown is not None and (len(shown) < SHORTEST_DIGEST or not inputs.digest().startswith(shown)):
        why = f"its {changed} changed" if changed else "its commit, variables or workflow changed"
        raise Refused(f"The digest {shown[:64]} is not that of deployment {deployment.id}: {why}. {look}")

"""The inputs of a deployment. They are recorded, so that an approval is bound to them and an interrupted deployment
continues with them."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.projects.find import DeployTarget
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment
from control_domain.tables.variables import VariableSet
from control_domain.tables.workflows import Workflow
from pipeline_contracts.errors import InputsChanged

MIN_DIGEST_LENGTH = 16
"""Digits of a digest that people see and may pass: 64 bits."""
_REVIEW_AGAIN = "Review the inputs again, and name their digest."


@dataclass(frozen=True, slots=True)
class DeploymentInputs:
    """All that determines what a deployment runs. Variable sets and workflows are immutable."""

    repository_id: int
    revision: str | None
    """The commit; None if it is not known yet."""
    variables_id: int | None
    workflow_id: int | None
    """The project's workflow; None for the `pharos.yaml` of the commit or of the deployed release."""
    release_source_id: int | None
    """The deployment whose release is deployed, by a rollback or a promotion, with the workflow that built it."""

    def digest(self) -> str:
        """Return the SHA-256 of all inputs, in hexadecimal digits."""
        fields = [
            self.repository_id,
            self.revision,
            self.variables_id,
            self.workflow_id,
            self.release_source_id,
        ]
        return hashlib.sha256(json.dumps(fields).encode()).hexdigest()


async def read_current_inputs(
    session: AsyncSession,
    target: DeployTarget,
    repository_id: int,
    revision: str | None,
    release_source_id: int | None,
) -> DeploymentInputs:
    """Return the inputs that a new deployment to this environment would have now."""
    return await _read_inputs(
        session, target.environment.id, target.project.id, repository_id, revision, release_source_id
    )


async def read_deployment_inputs(
    session: AsyncSession, deployment: Deployment, environment: Environment, revision: str | None
) -> DeploymentInputs:
    """Return the inputs that this deployment would have if it began now with this commit."""
    release_source_id = deployment.rolled_back_to_id or deployment.promoted_from_id
    return await _read_inputs(
        session, environment.id, deployment.project_id, deployment.repository_id, revision, release_source_id
    )


async def _read_inputs(
    session: AsyncSession,
    environment_id: int,
    project_id: int,
    repository_id: int,
    revision: str | None,
    release_source_id: int | None,
) -> DeploymentInputs:
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
    return DeploymentInputs(
        repository_id,
        revision,
        variables_id,
        None if release_source_id is not None else workflow_id,
        release_source_id,
    )


def input_columns(inputs: DeploymentInputs, now: datetime) -> dict[str, Any]:
    """Return the columns that record these inputs in a deployment."""
    return {
        "frozen_at": now,
        "frozen_variables_id": inputs.variables_id,
        "frozen_workflow_id": inputs.workflow_id,
    }


Changed = Literal["variables", "workflow"]


def list_changes(deployment: Deployment, inputs: DeploymentInputs) -> Sequence[Changed] | None:
    """Return the inputs that changed since they were recorded; None if they were not."""
    if deployment.frozen_at is None:
        return None
    changed: list[Changed] = []
    if deployment.frozen_variables_id != inputs.variables_id:
        changed.append("variables")
    if deployment.frozen_workflow_id != inputs.workflow_id:
        changed.append("workflow")
    return changed


def describe_changes(deployment: Deployment, inputs: DeploymentInputs) -> str:
    """Name the inputs that changed since they were recorded, such as `variables and workflow`; empty if none did."""
    return " and ".join(list_changes(deployment, inputs) or ())


def describe_changes_for_approver(deployment: Deployment, inputs: DeploymentInputs) -> str | None:
    """Return what changed, for the approver; None if nothing did, so that no digest is needed."""
    if deployment.frozen_at is None:
        return "not known"
    return describe_changes(deployment, inputs) or None


def check_reviewed_inputs(
    deployment: Deployment, inputs: DeploymentInputs, reviewed_digest: str | None
) -> None:
    """Raise `InputsChanged` if these inputs are not those that the approver reviewed."""
    changed = describe_changes(deployment, inputs)
    if reviewed_digest is None and deployment.frozen_at is None:
        raise InputsChanged(
            f"The inputs of deployment {deployment.id} were not recorded when it was requested: it did not wait for "
            f"approval then, or an earlier version of Pharos queued it. {_REVIEW_AGAIN}"
        )
    if reviewed_digest is None and changed:
        raise InputsChanged(
            f"The {changed} changed since deployment {deployment.id} began to wait, so it would not "
            "run what was requested. "
            f"{_REVIEW_AGAIN}"
        )
    if reviewed_digest is not None and (
        len(reviewed_digest) < MIN_DIGEST_LENGTH or not inputs.digest().startswith(reviewed_digest)
    ):
        reason = f"its {changed} changed" if changed else "its commit, variables or workflow changed"
        raise InputsChanged(
            f"The digest {reviewed_digest[:64]} is not that of deployment {deployment.id}: {reason}. "
            f"{_REVIEW_AGAIN}"
        )

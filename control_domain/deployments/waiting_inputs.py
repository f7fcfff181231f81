"""The inputs that deployments waiting for approval would have if they were approved now."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Annotated, TypedDict

from msgspec import Meta
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.describe import PersonSummary, summarize_person
from control_domain.accounts.operations import Caller
from control_domain.deployments.inputs import DeploymentInputs
from control_domain.tables.accounts import Person
from control_domain.tables.deployments import Deployment, Release
from control_domain.tables.variables import VariableSet
from control_domain.tables.workflows import Workflow
from pipeline_contracts.times import format_time


class VersionDocument(TypedDict):
    """A version of variables."""

    version: int
    set_at: str
    set_by: PersonSummary | None


class WorkflowInput(TypedDict):
    """The workflow that a deployment would run: that of the project, or that of the promoted release."""

    version: Annotated[int | None, Meta(description="The version of the project's workflow.")]
    set_at: str | None
    set_by: PersonSummary | None
    release_of: Annotated[int | None, Meta(description="The deployment that built the release.")]
    sha256: str | None
    text: str | None


async def read_waiting_inputs(
    session: AsyncSession, caller: Caller, deployments: Iterable[Deployment]
) -> Mapping[int, DeploymentInputs]:
    """Return the inputs that each deployment would have if it began now."""
    # Account scope: the deployments of the outer query are of the account.
    variables = (
        select(VariableSet.id)
        .where(VariableSet.environment_id == Deployment.environment_id)
        .order_by(VariableSet.version.desc())
        .limit(1)
        .scalar_subquery()
    )
    # Account scope: the deployments of the outer query are of the account.
    workflow = (
        select(Workflow.id)
        .where(Workflow.project_id == Deployment.project_id)
        .order_by(Workflow.version.desc())
        .limit(1)
        .scalar_subquery()
    )
    query = select(Deployment.id, variables, workflow).where(
        Deployment.account_id == caller.account.id,
        Deployment.id.in_([deployment.id for deployment in deployments]),
    )
    newest = {number: (variables, workflow) for number, variables, workflow in await session.execute(query)}
    return {
        deployment.id: _make_inputs(deployment, *newest[deployment.id])
        for deployment in deployments
        if deployment.id in newest
    }


def _make_inputs(
    deployment: Deployment, variables_id: int | None, workflow_id: int | None
) -> DeploymentInputs:
    source_id = deployment.rolled_back_to_id or deployment.promoted_from_id
    return DeploymentInputs(
        deployment.repository_id,
        deployment.revision,
        variables_id,
        None if source_id is not None else workflow_id,
        source_id,
    )


async def read_versions(
    session: AsyncSession, inputs: Iterable[DeploymentInputs]
) -> Mapping[int | None, VersionDocument]:
    query = (
        select(VariableSet.id, VariableSet.version, VariableSet.created_at, Person)
        .outerjoin(Person, Person.id == VariableSet.set_by_id)
        .where(VariableSet.id.in_({each.variables_id for each in inputs} - {None}))
    )
    return {
        number: {
            "version": version,
            "set_at": format_time(set_at),
            "set_by": None if person is None else summarize_person(person),
        }
        for number, version, set_at, person in await session.execute(query)
    }


async def read_workflows(
    session: AsyncSession, inputs: Iterable[DeploymentInputs]
) -> Mapping[int | None, WorkflowInput]:
    query = (
        select(Workflow, Person)
        .outerjoin(Person, Person.id == Workflow.set_by_id)
        .where(Workflow.id.in_({each.workflow_id for each in inputs} - {None}))
    )
    return {
        workflow.id: {
            "version": workflow.version,
            "set_at": format_time(workflow.created_at),
            "set_by": None if person is None else summarize_person(person),
            "release_of": None,
            "sha256": _hash(workflow.text),
            "text": workflow.text,
        }
        for workflow, person in await session.execute(query)
    }


async def read_workflows_of_releases(
    session: AsyncSession, caller: Caller, inputs: Iterable[DeploymentInputs]
) -> Mapping[int | None, WorkflowInput]:
    """Return the workflow of the release of each source; for a rollback, of the release that it made live."""
    builder = func.coalesce(Deployment.rolled_back_to_id, Deployment.id)
    query = (
        select(Deployment.id, builder, Release.workflow)
        .outerjoin(Release, Release.deployment_id == builder)
        .where(
            Deployment.account_id == caller.account.id,
            Deployment.id.in_({each.release_source_id for each in inputs} - {None}),
        )
    )
    return {
        number: {
            "version": None,
            "set_at": None,
            "set_by": None,
            "release_of": built_by,
            "sha256": None if text is None else _hash(text),
            "text": text,
        }
        for number, built_by, text in await session.execute(query)
    }


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

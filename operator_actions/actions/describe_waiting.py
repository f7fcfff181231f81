"""What a second person is shown of deployments that wait: the commit, the variables and the workflow of each."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.deployments.inputs import (
    MIN_DIGEST_LENGTH,
    DeploymentInputs,
    describe_changes_for_approver,
)
from control_domain.tables.accounts import Person
from control_domain.tables.deployments import Deployment, Release
from control_domain.tables.repositories import Repository
from control_domain.tables.variables import VariableSet
from control_domain.tables.workflows import Workflow
from pipeline_contracts.times import format_time


async def describe_waiting(session: AsyncSession, ids: Iterable[int]) -> Mapping[int, dict[str, Any]]:
    """Return for each deployment the inputs that it would run with if it were approved now.

    `repository_url`: the source of the commit. `digest`: identifies all inputs in an approval; null while the commit is
    unknown. `changed_since_asked`: the inputs that changed since the deployment was requested or last approved;
    `not known` if the former inputs were not stored, null if there are no changes. `workflow`: null if the commit has
    its own; else the `text`, its SHA-256, and either the project's `version` or `release_of`, the deployment whose
    release is promoted.
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
    query = (
        select(Deployment, Repository.url, variables, workflow)
        .join(Repository, Repository.id == Deployment.repository_id)
        .where(Deployment.id.in_(list(ids)))
    )
    waiting = {}
    for deployment, url, variables_id, workflow_id in await session.execute(query):
        release_source_id = deployment.rolled_back_to_id or deployment.promoted_from_id
        own = None if release_source_id is not None else workflow_id
        source = deployment.repository_id, deployment.revision
        waiting[deployment.id] = (
            deployment,
            url,
            DeploymentInputs(*source, variables_id, own, release_source_id),
        )
    all_inputs = [inputs for *_, inputs in waiting.values()]
    variables_told = await _versions(session, VariableSet, [one.variables_id for one in all_inputs])
    workflows_told = await _workflows(session, all_inputs)
    return {
        number: {
            "repository_url": url,
            "digest": None if inputs.revision is None else inputs.digest()[:MIN_DIGEST_LENGTH],
            "commit_subject": deployment.commit_subject,
            "commit_author": deployment.commit_author,
            "commit_fault": deployment.commit_fault,
            "variables": variables_told.get(inputs.variables_id or 0),
            "workflow": workflows_told.get(inputs),
            "changed_since_asked": describe_changes_for_approver(deployment, inputs),
        }
        for number, (deployment, url, inputs) in waiting.items()
    }


async def _workflows(
    session: AsyncSession, all_inputs: Sequence[DeploymentInputs]
) -> Mapping[DeploymentInputs, dict[str, Any] | None]:
    """Nothing for those whose commit has its own."""
    ids = {one.workflow_id for one in all_inputs if one.workflow_id is not None}
    versions = await _versions(session, Workflow, ids)
    texts = await _texts(session, ids)
    stored = {
        number: {**versions[number], "release_of": None, **_tell_text(text)} for number, text in texts.items()
    }
    brought = await _brought(session, [one.release_source_id for one in all_inputs])
    return {
        one: stored.get(one.workflow_id or 0)
        if one.release_source_id is None
        else brought.get(one.release_source_id)
        for one in all_inputs
    }


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


async def _texts(session: AsyncSession, ids: Iterable[int]) -> Mapping[int, str]:
    rows = await session.execute(select(Workflow.id, Workflow.text).where(Workflow.id.in_(ids)))
    return {row.id: row.text for row in rows}


async def _brought(session: AsyncSession, ids: Iterable[int | None]) -> Mapping[int, dict[str, Any]]:
    """The workflow of the release of each of these deployments; of a rollback, of what that one brought."""
    builder = func.coalesce(Deployment.rolled_back_to_id, Deployment.id)
    query = (
        select(Deployment.id, builder, Release.workflow)
        .outerjoin(Release, Release.deployment_id == builder)
        .where(Deployment.id.in_({one for one in ids if one is not None}))
    )
    nobody = {"version": None, "set_at": None, "set_by": None}
    return {
        number: {**nobody, "release_of": built_by, **_tell_text(text)}
        for number, built_by, text in await session.execute(query)
    }


def _tell_text(text: str | None) -> dict[str, Any]:
    return {"sha256": None if text is None else hashlib.sha256(text.encode()).hexdigest(), "text": text}

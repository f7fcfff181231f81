"""Pending approvals of an account: deployments with their inputs, and changes of variables."""

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple, TypedDict

from msgspec import Meta
from sqlalchemy import ColumnElement, literal_column, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import sees_all_projects
from control_domain.deployments.deciders import Waiting, list_decidable
from control_domain.deployments.details import DeploymentDetails, list_details
from control_domain.deployments.inputs import Changed, DeploymentInputs, list_changes
from control_domain.deployments.new_commits import NewCommits, read_new_commits
from control_domain.deployments.waiting_inputs import (
    VersionDocument,
    WorkflowInput,
    read_versions,
    read_waiting_inputs,
    read_workflows,
    read_workflows_of_releases,
)
from control_domain.projects.find import DeployTarget, is_callers_role
from control_domain.sealing import SealingKeys
from control_domain.tables.deployments import Deployment, LiveRelease, Release
from control_domain.tables.projects import Environment, Project, ProjectRole
from control_domain.tables.repositories import Repository
from control_domain.tables.variables import VariableChange
from control_domain.variables.describe import VariableChangeDocument, describe_changes
from pipeline_contracts.deploy_states import DeploymentStatus


class WaitingDeployment(TypedDict):
    """A deployment that waits for approval, with the inputs that it would have if it were approved now."""

    deployment: DeploymentDetails
    repository_url: str
    commit_fault: Annotated[str | None, Meta(description="Why the commit could not be looked up.")]
    new_commits: Annotated[
        NewCommits | None,
        Meta(description="Null if nothing is live, or while the commits are not known yet."),
    ]
    variables: Annotated[VersionDocument | None, Meta(description="Null without variables.")]
    workflow: Annotated[WorkflowInput | None, Meta(description="Null for the `pharos.yaml` of the commit.")]
    digest: Annotated[
        str | None,
        Meta(
            description="Digest of repository, commit, variables and workflow. Null while the commit is unknown."
        ),
    ]
    changed_since_asked: Annotated[
        list[Changed] | None,
        Meta(description="The inputs that changed since the request or the last approval. Null if unknown."),
    ]
    needs_digest: Annotated[bool, Meta(description="True if the approval has to name the digest.")]


class ApprovalDocument(TypedDict):
    """A deployment or a change of variables that waits for a second person."""

    kind: Literal["deployment", "variable_change"]
    can_decide: Annotated[
        bool,
        Meta(description="True if your role lets you decide, and another person made the request."),
    ]
    deployment: WaitingDeployment | None
    variable_change: VariableChangeDocument | None


class WaitingPage(NamedTuple):
    """A page of pending approvals, and the sort key of its last item if more follow."""

    items: Sequence[ApprovalDocument]
    last_key: str | None


# Prefixes of sort keys, which put deployments before changes of variables, and the newest first within each.
_DEPLOYMENTS, _CHANGES = "d", "v"


async def list_waiting(
    session: AsyncSession, keys: SealingKeys, caller: Caller, limit: int, after: str | None
) -> WaitingPage:
    """Return a page of the pending approvals in the projects that the caller may read.

    Deployments come before changes of variables, each from the newest.

    `after`: the sort key of the last item of the page before.
    """
    kind, _, number = (after or "").partition(":")
    items: list[tuple[str, ApprovalDocument]] = []
    if kind != _CHANGES:
        items += await _list_deployments(session, caller, limit + 1, int(number) if number else None)
    if len(items) <= limit:
        before = int(number) if kind == _CHANGES else None
        items += await _list_changes(session, keys, caller, limit + 1 - len(items), before)
    page = items[:limit]
    return WaitingPage([item for _, item in page], page[-1][0] if len(items) > limit else None)


def _in_own_projects(caller: Caller) -> Sequence[ColumnElement[bool]]:
    """Return the conditions that the caller may read the project of the query."""
    return [] if sees_all_projects(caller.role) else [ProjectRole.role.is_not(None)]


async def _list_deployments(
    session: AsyncSession, caller: Caller, limit: int, before: int | None
) -> list[tuple[str, ApprovalDocument]]:
    query = (
        select(Deployment, ProjectRole.role, Repository.url, Release.revision)
        .join(Project, Project.id == Deployment.project_id)
        .join(Repository, Repository.id == Deployment.repository_id)
        .outerjoin(LiveRelease, LiveRelease.environment_id == Deployment.environment_id)
        .outerjoin(Release, Release.id == LiveRelease.release_id)
        .outerjoin(ProjectRole, is_callers_role(caller))
        .where(
            Deployment.account_id == caller.account.id,
            # A literal, for the partial index.
            Deployment.status == literal_column(f"'{DeploymentStatus.AWAITING_APPROVAL}'"),
            *_in_own_projects(caller),
        )
        .order_by(Deployment.id.desc())
        .limit(limit)
    )
    if before is not None:
        query = query.where(Deployment.id < before)
    rows = (await session.execute(query)).all()
    deployments = [row[0] for row in rows]
    documents = {
        document["id"]: document
        for document in await list_details(
            session, caller.account.id, Deployment.id.in_([deployment.id for deployment in deployments])
        )
    }
    inputs = await read_waiting_inputs(session, caller, deployments)
    variables = await read_versions(session, inputs.values())
    workflows = await read_workflows(session, inputs.values())
    releases = await read_workflows_of_releases(session, caller, inputs.values())
    waiting = [Waiting(deployment.asked_by_id, role) for deployment, role, *_ in rows]
    decidable = await list_decidable(session, caller, waiting)
    return [
        (
            f"{_DEPLOYMENTS}:{deployment.id}",
            {
                "kind": "deployment",
                "can_decide": can_decide,
                "deployment": _describe_waiting(
                    deployment,
                    documents[deployment.id],
                    url,
                    read_new_commits(deployment, live_revision),
                    inputs[deployment.id],
                    variables.get(inputs[deployment.id].variables_id),
                    workflows.get(inputs[deployment.id].workflow_id)
                    or releases.get(inputs[deployment.id].release_source_id),
                ),
                "variable_change": None,
            },
        )
        for (deployment, _, url, live_revision), can_decide in zip(rows, decidable, strict=True)
        # Leave out deployments that were decided between two of these queries.
        if deployment.id in documents and deployment.id in inputs
    ]


def _describe_waiting(
    deployment: Deployment,
    document: DeploymentDetails,
    url: str,
    new_commits: NewCommits | None,
    inputs: DeploymentInputs,
    variables: VersionDocument | None,
    workflow: WorkflowInput | None,
) -> WaitingDeployment:
    changed = list_changes(deployment, inputs)
    return {
        "deployment": document,
        "repository_url": url,
        "commit_fault": deployment.commit_fault,
        "new_commits": new_commits,
        "variables": variables,
        "workflow": workflow,
        "digest": None if inputs.revision is None else inputs.digest(),
        "changed_since_asked": None if changed is None else list(changed),
        "needs_digest": changed is None or bool(changed),
    }


async def _list_changes(
    session: AsyncSession, keys: SealingKeys, caller: Caller, limit: int, before: int | None
) -> list[tuple[str, ApprovalDocument]]:
    query = (
        select(VariableChange, Environment, Project, ProjectRole.role)
        .join(Environment, Environment.id == VariableChange.environment_id)
        .join(Project, Project.id == Environment.project_id)
        .outerjoin(ProjectRole, is_callers_role(caller))
        .where(
            Project.account_id == caller.account.id,
            VariableChange.is_pending(),
            *_in_own_projects(caller),
        )
        .order_by(VariableChange.id.desc())
        .limit(limit)
    )
    if before is not None:
        query = query.where(VariableChange.id < before)
    rows = (await session.execute(query)).all()
    changes = [(change, DeployTarget(environment, project)) for change, environment, project, _ in rows]
    documents = await describe_changes(session, keys, changes)
    waiting = [Waiting(change.asked_by_id, role) for change, *_, role in rows]
    decidable = await list_decidable(session, caller, waiting)
    return [
        (
            f"{_CHANGES}:{row[0].id}",
            {
                "kind": "variable_change",
                "can_decide": can_decide,
                "deployment": None,
                "variable_change": document,
            },
        )
        for row, document, can_decide in zip(rows, documents, decidable, strict=True)
    ]

"""Documents of deployments with the people, the project and the commit of each."""

from collections.abc import Sequence
from typing import Annotated, Literal, TypedDict, cast

from msgspec import Meta
from sqlalchemy import ColumnElement, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from control_domain.accounts.describe import PersonSummary, summarize_person
from control_domain.deployments.describe import describe_deployment
from control_domain.paging import Page
from control_domain.projects.describe import (
    EnvironmentSummary,
    ProjectSummary,
    summarize_environment,
    summarize_project,
)
from control_domain.tables.accounts import Person
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment, Project
from pipeline_contracts.deploy_states import DeploymentStatus
from pipeline_contracts.times import format_time

Status = Literal[
    "queued", "awaiting_approval", "rejected", "deploying", "running", "succeeded", "failed", "canceled"
]


class DeploymentDetails(TypedDict):
    """A deployment with the people, the project and the commit."""

    id: int
    project: ProjectSummary
    environment_id: str | None
    environment: Annotated[EnvironmentSummary | None, Meta(description="Null if it was removed.")]
    repository_id: int
    status: Status
    trigger: Annotated[
        str,
        Meta(description="`api`, `push`, `pull_request`, `rollback` or `promotion`; more values may follow."),
    ]
    revision: Annotated[str | None, Meta(description="The commit. Null until it is known.")]
    ref: Annotated[
        str | None,
        Meta(description="The requested branch, tag or commit. Null for the branch of the environment."),
    ]
    promoted_from_build_id: int | None
    rolled_back_to_build_id: Annotated[
        int | None, Meta(description="The deployment whose release it makes live again.")
    ]
    commit_subject: Annotated[
        str | None,
        Meta(description="The first line of the commit's message. Null until the commit was fetched."),
    ]
    commit_author: str | None
    note: str | None
    asked_by: Annotated[
        PersonSummary | None,
        Meta(description="The person who requested it. Null for a webhook or an operator."),
    ]
    decided_by: Annotated[PersonSummary | None, Meta(description="The person who approved or rejected it.")]
    decided_at: str | None
    created_at: str
    finished_at: str | None


_asked, _decided = aliased(Person), aliased(Person)


async def read_details(session: AsyncSession, deployment: Deployment) -> DeploymentDetails:
    """Return the document of one deployment that the caller may see."""
    [document] = await list_details(session, deployment.account_id, Deployment.id == deployment.id)
    return document


async def list_details(
    session: AsyncSession, account_id: int, *conditions: ColumnElement[bool], limit: int | None = None
) -> list[DeploymentDetails]:
    """Return the documents of the account's deployments that meet the conditions, the newest first."""
    query = (
        select(Deployment, Environment, Project, _asked, _decided)
        .join(Project, Project.id == Deployment.project_id)
        .outerjoin(Environment, Environment.id == Deployment.environment_id)
        .outerjoin(_asked, _asked.id == Deployment.asked_by_id)
        .outerjoin(_decided, _decided.id == Deployment.decided_by_id)
        .where(Deployment.account_id == account_id, *conditions)
        .order_by(Deployment.id.desc())
        .limit(limit)
    )
    return [_describe(*row) for row in await session.execute(query)]


def _describe(
    deployment: Deployment,
    environment: Environment | None,
    project: Project,
    asked_by: Person | None,
    decided_by: Person | None,
) -> DeploymentDetails:
    documented = describe_deployment(deployment, None if environment is None else environment.public_id)
    details = {
        **documented,
        "project": summarize_project(project),
        "environment": None if environment is None else summarize_environment(environment),
        "rolled_back_to_build_id": deployment.rolled_back_to_id,
        "commit_subject": deployment.commit_subject,
        "commit_author": deployment.commit_author,
        "note": deployment.note,
        "asked_by": None if asked_by is None else summarize_person(asked_by),
        "decided_by": None if decided_by is None else summarize_person(decided_by),
        "decided_at": None if deployment.decided_at is None else format_time(deployment.decided_at),
    }
    return cast(DeploymentDetails, details)


async def list_environment_deployments(
    session: AsyncSession,
    environment: Environment,
    account_id: int,
    status: DeploymentStatus | None,
    page: Page,
) -> tuple[Sequence[DeploymentDetails], bool]:
    """Return a page of the environment's deployments, the newest first, and whether more follow."""
    return await _list_page(session, account_id, Deployment.environment_id == environment.id, status, page)


async def list_project_deployments(
    session: AsyncSession, project: Project, status: DeploymentStatus | None, page: Page
) -> tuple[Sequence[DeploymentDetails], bool]:
    """Return a page of the project's deployments, the newest first, and whether more follow.

    Deployments of removed environments are among them.
    """
    return await _list_page(session, project.account_id, Deployment.project_id == project.id, status, page)


async def _list_page(
    session: AsyncSession,
    account_id: int,
    parent: ColumnElement[bool],
    status: DeploymentStatus | None,
    page: Page,
) -> tuple[Sequence[DeploymentDetails], bool]:
    conditions = [parent]
    if status is not None:
        conditions.append(Deployment.status == status)
    if page.before is not None:
        conditions.append(Deployment.id < page.before)
    found = await list_details(session, account_id, *conditions, limit=page.limit + 1)
    return found[: page.limit], len(found) > page.limit

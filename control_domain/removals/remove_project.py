"""A project ends, with all that it was deployed from and how."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Delete, delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import lock_account_row
from control_domain.audit import Actor, record_audit_entry
from control_domain.database.base import Base
from control_domain.projects.operations import lock_project_row
from control_domain.refusals import Refused
from control_domain.tables.accounts import Account
from control_domain.tables.configuration import ConfigurationRun, Review, RunStep
from control_domain.tables.deployments import Deployment, DeploymentLine
from control_domain.tables.projects import Environment, Project, ProjectRole
from control_domain.tables.repositories import Repository
from control_domain.tables.sites import Site
from control_domain.tables.webhooks import SealedWebhookSecret, WaitingPush, WebhookDelivery
from control_domain.tables.workflows import Workflow
from pipeline_contracts.errors import NotFound

_MOST_NAMED = 5


async def remove_project(
    session: AsyncSession, account: Account, project: Project, actor: Actor, now: datetime
) -> int:
    """Delete a project of the account that has neither environments nor sites, with its deployments and their logs, its
    repositories with their webhooks, workflows and configurations, and the roles in it; gives how many deployments
    there were.

    Raises `Refused` for one that has environments or sites, and names them.
    """
    # Roles are given and taken while the account is held.
    await lock_account_row(session, account)
    try:
        # Before its applications, as by those who carry them out.
        await lock_project_row(session, project)
    except NotFound:
        raise Refused("The project is removed already.") from None
    await _check_empty(session, project)
    mine = select(Deployment.id).where(Deployment.project_id == project.id)
    of_project = Deployment.project_id == project.id
    try:
        await session.execute(_all_of(DeploymentLine, DeploymentLine.deployment_id.in_(mine)))
        # They refer to each other, and go in one statement.
        removed = await session.execute(_all_of(Deployment, of_project).returning(Deployment.id))
        count = len(removed.all())
        await _remove_repositories(session, project)
        await session.execute(_all_of(ProjectRole, ProjectRole.project_id == project.id))
        await session.execute(_all_of(Workflow, Workflow.project_id == project.id))
        applications = select(ConfigurationRun.id).where(ConfigurationRun.project_id == project.id)
        await session.execute(_all_of(RunStep, RunStep.run_id.in_(applications)))
        await session.execute(_all_of(ConfigurationRun, ConfigurationRun.project_id == project.id))
        await session.execute(_all_of(Review, Review.project_id == project.id))
        await session.execute(_all_of(Project, Project.id == project.id))
    except IntegrityError:
        raise Refused("Something was added to the project meanwhile: run the command again.") from None
    details = {"name": project.name, "slug": project.slug, "deployments": count}
    record_audit_entry(
        session, actor, project.account_id, "project.remove", f"project {project.public_id}", now, details
    )
    return count


async def _remove_repositories(session: AsyncSession, project: Project) -> None:
    mine = select(Repository.id).where(Repository.project_id == project.id)
    await session.execute(_all_of(WaitingPush, WaitingPush.repository_id.in_(mine)))
    await session.execute(_all_of(WebhookDelivery, WebhookDelivery.repository_id.in_(mine)))
    await session.execute(_all_of(SealedWebhookSecret, SealedWebhookSecret.repository_id.in_(mine)))
    await session.execute(_all_of(Repository, Repository.project_id == project.id))


def _all_of(table: type[Base], condition: ColumnElement[bool]) -> Delete:
    # What the session has read of them is not asked for again: there may be millions of lines.
    return delete(table).where(condition).execution_options(synchronize_session=False)


async def _check_empty(session: AsyncSession, project: Project) -> None:
    environments = select(Environment.slug).where(Environment.project_id == project.id)
    sites = select(Site.name).where(Site.project_id == project.id)
    in_the_way = [
        *_told("environment", (await session.execute(environments.order_by(Environment.id))).scalars()),
        *_told("site", (await session.execute(sites.order_by(Site.id))).scalars()),
    ]
    if in_the_way:
        raise Refused(
            f"The project {project.slug} still has the {' and the '.join(in_the_way)}: remove what is in it first, "
            "with `pharos environment remove` and `pharos site remove`."
        )


def _told(kind: str, found: Iterable[str]) -> Sequence[str]:
    """`environments production, staging`; nothing where none was found."""
    names = list(found)
    if not names:
        return []
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return [f"{kind}{'s' if len(names) > 1 else ''} {', '.join(names[:_MOST_NAMED])}{more}"]

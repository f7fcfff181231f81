"""Removes a project with its deployments, repositories, workflows and configurations."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Delete, delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import lock_account_row
from control_domain.audit import Actor, record_audit_entry
from control_domain.database.base import Base
from control_domain.projects.operations import lock_project_row
from control_domain.removals.end_incidents import end_project_incidents
from control_domain.tables.accounts import Account
from control_domain.tables.configuration import ConfigurationRun, Review, RunStep
from control_domain.tables.deployments import Deployment, DeploymentLine
from control_domain.tables.notifications import NotificationRule
from control_domain.tables.projects import Environment, Project, ProjectRole
from control_domain.tables.repositories import Repository
from control_domain.tables.sites import Site
from control_domain.tables.webhooks import SealedWebhookSecret, WaitingPush, WebhookDelivery
from control_domain.tables.workflows import Workflow
from pipeline_contracts.errors import Conflict

_MAX_NAMES = 5


async def remove_project(
    session: AsyncSession, account: Account, project: Project, actor: Actor, now: datetime
) -> int:
    """Delete a project without environments and sites, and return the number of its deployments.

    Its deployments with their logs, repositories with their webhooks, workflows, configurations, roles and notification
    rules are deleted too. Raises `Conflict` if it still has environments or sites, with their names, and `NotFound` if
    it was removed meanwhile.
    """
    # Roles are changed under the lock of the account.
    await lock_account_row(session, account)
    # Lock the project before the rows of its configuration runs, in the order of the workers.
    await lock_project_row(session, project)
    await _check_empty(session, project)
    await end_project_incidents(session, project, now)
    mine = select(Deployment.id).where(Deployment.project_id == project.id)
    of_project = Deployment.project_id == project.id
    try:
        await session.execute(_delete_where(DeploymentLine, DeploymentLine.deployment_id.in_(mine)))
        # In one statement, because deployments refer to each other.
        removed = await session.execute(_delete_where(Deployment, of_project).returning(Deployment.id))
        count = len(removed.all())
        await _remove_repositories(session, project)
        await session.execute(_delete_where(ProjectRole, ProjectRole.project_id == project.id))
        await session.execute(_delete_where(NotificationRule, NotificationRule.project_id == project.id))
        await session.execute(_delete_where(Workflow, Workflow.project_id == project.id))
        applications = select(ConfigurationRun.id).where(ConfigurationRun.project_id == project.id)
        await session.execute(_delete_where(RunStep, RunStep.run_id.in_(applications)))
        await session.execute(_delete_where(ConfigurationRun, ConfigurationRun.project_id == project.id))
        await session.execute(_delete_where(Review, Review.project_id == project.id))
        await session.execute(_delete_where(Project, Project.id == project.id))
    except IntegrityError:
        raise Conflict(
            "Something was added to the project meanwhile. Check the project, and send the request again."
        ) from None
    details = {"name": project.name, "slug": project.slug, "deployments": count}
    record_audit_entry(
        session, actor, project.account_id, "project.remove", f"project {project.public_id}", now, details
    )
    return count


async def _remove_repositories(session: AsyncSession, project: Project) -> None:
    mine = select(Repository.id).where(Repository.project_id == project.id)
    await session.execute(_delete_where(WaitingPush, WaitingPush.repository_id.in_(mine)))
    await session.execute(_delete_where(WebhookDelivery, WebhookDelivery.repository_id.in_(mine)))
    await session.execute(_delete_where(SealedWebhookSecret, SealedWebhookSecret.repository_id.in_(mine)))
    await session.execute(_delete_where(Repository, Repository.project_id == project.id))


def _delete_where(table: type[Base], condition: ColumnElement[bool]) -> Delete:
    # Without synchronising the session: there may be millions of lines.
    return delete(table).where(condition).execution_options(synchronize_session=False)


async def _check_empty(session: AsyncSession, project: Project) -> None:
    environments = select(Environment.slug).where(Environment.project_id == project.id)
    sites = select(Site.name).where(Site.project_id == project.id)
    remaining = [
        *_list_names("environment", (await session.execute(environments.order_by(Environment.id))).scalars()),
        *_list_names("site", (await session.execute(sites.order_by(Site.id))).scalars()),
    ]
    if remaining:
        raise Conflict(
            f"The project {project.slug} still has the {' and the '.join(remaining)}. Remove these first."
        )


def _list_names(kind: str, found: Iterable[str]) -> Sequence[str]:
    """Return `["environments production, staging"]`, or an empty list without names."""
    names = list(found)
    if not names:
        return []
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return [f"{kind}{'s' if len(names) > 1 else ''} {', '.join(names[:_MAX_NAMES])}{more}"]

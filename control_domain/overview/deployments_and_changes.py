"""Failed deployments and configuration runs, and pending approvals."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, func, literal_column, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.deployments.deciders import Waiting, list_decidable
from control_domain.deployments.details import DeploymentDetails, list_details
from control_domain.overview.attention_items import MAX_ITEMS, Found, Section, Subject, make_item
from control_domain.projects.describe import summarize_environment, summarize_project
from control_domain.projects.find import in_visible_projects, is_callers_role
from control_domain.tables.configuration import ConfigurationRun
from control_domain.tables.deployments import Deployment, LiveRelease
from control_domain.tables.projects import Environment, Project, ProjectRole
from control_domain.tables.variables import VariableChange
from pipeline_contracts.deploy_states import DeploymentStatus
from pipeline_contracts.times import format_time

_SHORT_REVISION = 7


async def count_rows(session: AsyncSession, query: Select[Any]) -> int:
    """Return the number of rows of the query."""
    counted: int = (
        await session.execute(select(func.count()).select_from(query.order_by(None).subquery()))
    ).scalar_one()
    return counted


def newest_deployments(caller: Caller) -> Select[Any]:
    """Return the query of the numbers of the newest deployments of all visible environments."""
    # Account scope: `in_visible_projects` is bound to the account.
    newest = (
        select(func.max(Deployment.id))
        .where(Deployment.environment_id == Environment.id)
        .correlate(Environment)
        .scalar_subquery()
    )
    return (
        select(newest)
        .select_from(Environment)
        .join(Project, Project.id == Environment.project_id)
        .where(*in_visible_projects(caller))
    )


async def find_failed_deployments(session: AsyncSession, caller: Caller) -> Section:
    """Return the failed deployments that are the newest of their environment.

    A failure is critical if the environment serves no release, otherwise a warning.
    """
    conditions = (
        Deployment.id.in_(newest_deployments(caller)),
        Deployment.status == DeploymentStatus.FAILED,
    )
    listed, total = await _list(session, caller, *conditions)
    serving = await _find_serving(session, caller, listed)
    return Section(
        [
            Found(
                make_item(
                    "deployment.failed",
                    "warning" if each["environment_id"] in serving else "critical",
                    f"Deployment {each['id']} failed",
                    each["finished_at"] or each["created_at"],
                    ("deployment", each["id"]),
                    each["project"],
                    each["environment"],
                    detail=_describe_commit(each),
                ),
                _subjects(each, "environment"),
            )
            for each in listed
        ],
        total,
    )


async def _find_serving(
    session: AsyncSession, caller: Caller, deployments: Sequence[DeploymentDetails]
) -> set[str]:
    """Return the public IDs of the environments of the deployments that have a live release."""
    query = (
        select(Environment.public_id)
        .join(LiveRelease, LiveRelease.environment_id == Environment.id)
        .join(Project, Project.id == Environment.project_id)
        .where(
            Environment.public_id.in_([each["environment_id"] for each in deployments]),
            *in_visible_projects(caller),
        )
    )
    return set((await session.execute(query)).scalars())


async def find_waiting_deployments(session: AsyncSession, caller: Caller) -> Section:
    """Return the deployments that wait for approval."""
    # Account scope: `in_visible_projects` is bound to the account.
    projects = select(Project.id).where(*in_visible_projects(caller))
    # A literal, for the partial index.
    is_waiting = Deployment.status == literal_column(f"'{DeploymentStatus.AWAITING_APPROVAL}'")
    listed, total = await _list(session, caller, is_waiting, Deployment.project_id.in_(projects))
    decidable = await _find_decidable(session, caller, [each["id"] for each in listed])
    return Section(
        [
            Found(
                make_item(
                    "deployment.waiting",
                    "info",
                    f"Deployment {each['id']} waits for approval",
                    each["created_at"],
                    ("deployment", each["id"]),
                    each["project"],
                    each["environment"],
                    detail=_describe_commit(each),
                    can_decide=each["id"] in decidable,
                ),
                _subjects(each, f"approval {each['id']}"),
            )
            for each in listed
        ],
        total,
    )


async def _list(
    session: AsyncSession, caller: Caller, *conditions: ColumnElement[bool]
) -> tuple[list[DeploymentDetails], int]:
    listed = await list_details(session, caller.account.id, *conditions, limit=MAX_ITEMS)
    if len(listed) < MAX_ITEMS:
        return listed, len(listed)
    query = select(Deployment.id).where(Deployment.account_id == caller.account.id, *conditions)
    return listed, await count_rows(session, query)


def _describe_commit(deployment: DeploymentDetails) -> str | None:
    parts = [(deployment["revision"] or "")[:_SHORT_REVISION], deployment["commit_subject"] or ""]
    return " ".join(part for part in parts if part) or None


async def _find_decidable(session: AsyncSession, caller: Caller, numbers: Sequence[int]) -> set[int]:
    """Return the waiting deployments that the caller may decide."""
    query = (
        select(Deployment.id, Deployment.asked_by_id, ProjectRole.role)
        .join(Project, Project.id == Deployment.project_id)
        .outerjoin(ProjectRole, is_callers_role(caller))
        .where(Deployment.account_id == caller.account.id, Deployment.id.in_(numbers))
    )
    rows = (await session.execute(query)).all()
    decidable = await list_decidable(session, caller, [Waiting(asked_by, role) for _, asked_by, role in rows])
    return {number for (number, *_), can_decide in zip(rows, decidable, strict=True) if can_decide}


def _subjects(deployment: DeploymentDetails, subject: str) -> list[Subject]:
    environment = deployment["environment_id"]
    return [] if environment is None else [(environment, "deployment", subject)]


async def find_waiting_changes(session: AsyncSession, caller: Caller) -> Section:
    """Return the changes of variables that wait for approval."""
    # Account scope: `in_visible_projects` is bound to the account.
    query = (
        select(VariableChange, Environment, Project, ProjectRole.role)
        .join(Environment, Environment.id == VariableChange.environment_id)
        .join(Project, Project.id == Environment.project_id)
        .outerjoin(ProjectRole, is_callers_role(caller))
        .where(VariableChange.is_pending(), *in_visible_projects(caller))
        .order_by(VariableChange.id.desc())
    )
    rows = (await session.execute(query.limit(MAX_ITEMS))).all()
    waiting = [Waiting(change.asked_by_id, role) for change, *_, role in rows]
    decidable = await list_decidable(session, caller, waiting)
    found = [
        Found(
            make_item(
                "variables.waiting",
                "info",
                "A change of variables waits for approval",
                format_time(change.created_at),
                ("variable_change", change.id),
                summarize_project(project),
                summarize_environment(environment),
                can_decide=can_decide,
            )
        )
        for (change, environment, project, _), can_decide in zip(rows, decidable, strict=True)
    ]
    return Section(found, await count_rows(session, query.with_only_columns(VariableChange.id)))


async def find_failed_runs(session: AsyncSession, caller: Caller) -> Section:
    """Return the failed configuration runs that are the newest of their project."""
    # Account scope: `in_visible_projects` is bound to the account.
    newest = (
        select(func.max(ConfigurationRun.id))
        .where(ConfigurationRun.project_id == Project.id)
        .correlate(Project)
        .scalar_subquery()
    )
    query = (
        select(ConfigurationRun, Project)
        .join(Project, Project.id == ConfigurationRun.project_id)
        .where(
            ConfigurationRun.id == newest,
            ConfigurationRun.status == "failed",
            *in_visible_projects(caller),
        )
        .order_by(ConfigurationRun.id.desc())
    )
    rows = await session.execute(query.limit(MAX_ITEMS))
    found = [
        Found(
            make_item(
                "configuration.failed",
                "warning",
                f"Configuration run {run.id} failed",
                format_time(run.finished_at or run.created_at),
                ("configuration_run", run.id),
                summarize_project(project),
                None,
            )
        )
        for run, project in rows
    ]
    return Section(found, await count_rows(session, query.with_only_columns(ConfigurationRun.id)))

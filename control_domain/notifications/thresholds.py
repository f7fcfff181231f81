"""Lists, creates, changes and removes thresholds of environments for people, with audit entries."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import String, cast, delete, literal, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import Right
from control_domain.audit import Actor, record_audit_entry
from control_domain.database.errors import BrokenReference
from control_domain.database.public_ids import parse_number
from control_domain.database.statements import lock_row
from control_domain.notifications.end_threshold import Reason, end_threshold
from control_domain.notifications.limits import MAX_THRESHOLDS, check_number
from control_domain.notifications.threshold_settings import (
    ThresholdSettings,
    check_threshold,
    read_threshold_settings,
)
from control_domain.notifications.visibility import in_projects_of
from control_domain.paging import Page
from control_domain.projects.find import DeployTarget, is_callers_role, require_right
from control_domain.tables.notifications import AlertState, AlertThreshold
from control_domain.tables.projects import Environment, Project, ProjectRole
from pipeline_contracts.errors import NameTaken, NotFound


class FoundThreshold(NamedTuple):
    """A threshold with its state in the scan (None before its first evaluation), its environment and its project."""

    threshold: AlertThreshold
    state: AlertState | None
    environment: Environment
    project: Project


def _select_thresholds(account_id: int) -> Any:
    key = literal("threshold ", String) + cast(AlertThreshold.id, String)
    return (
        select(AlertThreshold, AlertState, Environment, Project)
        .join(Environment, Environment.id == AlertThreshold.environment_id)
        .join(Project, Project.id == Environment.project_id)
        .outerjoin(AlertState, AlertState.key == key)
        .where(Project.account_id == account_id)
    )


async def find_threshold(session: AsyncSession, caller: Caller, number: str, right: Right) -> FoundThreshold:
    """Return the threshold with this number.

    Raises `NotFound`, also for a threshold of another account, and `DeployNotAllowed`.
    """
    query = (
        _select_thresholds(caller.account.id)
        .add_columns(ProjectRole.role)
        .outerjoin(ProjectRole, is_callers_role(caller))
        .where(AlertThreshold.id == (parse_number(number) or 0))
    )
    row = (await session.execute(query)).one_or_none()
    if row is None:
        raise NotFound("The account has no such threshold.")
    require_right(caller, row[4], right)
    return FoundThreshold(*row[:4])


async def list_thresholds(
    session: AsyncSession,
    caller: Caller,
    project: Project | None,
    environment: Environment | None,
    page: Page,
) -> tuple[Sequence[FoundThreshold], bool]:
    """Return a page of the thresholds in projects that the caller may read, the newest first, and whether more
    follow."""
    query = _select_thresholds(caller.account.id).where(*in_projects_of(caller, Project.id))
    if project is not None:
        query = query.where(Project.id == project.id)
    if environment is not None:
        query = query.where(Environment.id == environment.id)
    if page.before is not None:
        query = query.where(AlertThreshold.id < page.before)
    rows = (await session.execute(query.order_by(AlertThreshold.id.desc()).limit(page.limit + 1))).all()
    return [FoundThreshold(*row) for row in rows[: page.limit]], len(rows) > page.limit


async def add_threshold(
    session: AsyncSession, target: DeployTarget, settings: ThresholdSettings, actor: Actor, now: datetime
) -> FoundThreshold:
    """Create a threshold in the environment.

    Raises `InvalidInput`, `NameTaken`, and `Conflict` if the account has too many thresholds.
    """
    settings = check_threshold(settings)
    of_account = (
        select(AlertThreshold)
        .join(Environment, Environment.id == AlertThreshold.environment_id)
        .join(Project, Project.id == Environment.project_id)
        .where(Project.account_id == target.project.account_id)
    )
    await check_number(session, of_account, MAX_THRESHOLDS, "thresholds")
    threshold = AlertThreshold(environment_id=target.environment.id, created_at=now, **settings.columns())
    try:
        async with session.begin_nested():
            session.add(threshold)
    except BrokenReference:
        raise
    except IntegrityError:
        raise _name_taken(settings.name) from None
    found = FoundThreshold(threshold, None, target.environment, target.project)
    _record(session, found, "create", settings.columns(), actor, now)
    return found


async def lock_threshold(session: AsyncSession, found: FoundThreshold) -> None:
    """Lock the threshold and read it again. Raises `NotFound` if it was removed meanwhile."""
    threshold = found.threshold
    is_threshold = (
        AlertThreshold.id == threshold.id,
        AlertThreshold.environment_id == found.environment.id,
    )
    if not await lock_row(session, AlertThreshold.created_at, *is_threshold):
        raise NotFound("The account has no such threshold.")
    await session.refresh(threshold)


async def update_threshold(
    session: AsyncSession, found: FoundThreshold, settings: ThresholdSettings, actor: Actor, now: datetime
) -> FoundThreshold:
    """Replace the settings of the threshold, which is locked.

    Its incident ends if the threshold is turned off or measures something else from now on; otherwise the next scan
    evaluates it. Raises `InvalidInput` and `NameTaken`.
    """
    settings = check_threshold(settings)
    before = read_threshold_settings(found.threshold)
    if settings == before:
        return found
    if not settings.enabled or settings.measured != before.measured:
        reason: Reason = "changed" if settings.enabled else "disabled"
        await end_threshold(session, found.threshold, found.environment, found.project, reason, now)
        found = found._replace(state=None)
    try:
        async with session.begin_nested():
            for name, value in settings.columns().items():
                setattr(found.threshold, name, value)
            await session.flush()
    except IntegrityError:
        raise _name_taken(settings.name) from None
    former = before.columns()
    details = {
        name: {"from": former[name], "to": value}
        for name, value in settings.columns().items()
        if value != former[name]
    }
    _record(session, found, "set", details, actor, now)
    return found


async def delete_threshold(session: AsyncSession, found: FoundThreshold, actor: Actor, now: datetime) -> None:
    """Remove the threshold, which is locked, and end its incident."""
    threshold = found.threshold
    await end_threshold(session, threshold, found.environment, found.project, "removed", now)
    await session.execute(
        delete(AlertThreshold).where(
            AlertThreshold.id == threshold.id, AlertThreshold.environment_id == found.environment.id
        )
    )
    _record(session, found, "remove", {"name": threshold.name}, actor, now)


def _record(
    session: AsyncSession,
    found: FoundThreshold,
    verb: str,
    details: Mapping[str, Any],
    actor: Actor,
    now: datetime,
) -> None:
    record_audit_entry(
        session,
        actor,
        found.project.account_id,
        f"threshold.{verb}",
        f"threshold {found.threshold.id}",
        now,
        {"environment": found.environment.public_id, **details},
    )


def _name_taken(name: str) -> NameTaken:
    return NameTaken(f"The environment has a threshold with the name {name!r} already.")

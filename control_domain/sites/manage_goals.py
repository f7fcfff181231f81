"""Lists, creates, changes and removes goals of a site for people, with audit entries."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.database.errors import BrokenReference
from control_domain.database.statements import lock_row
from control_domain.paging import Page
from control_domain.sites import operations
from control_domain.sites.operations import SiteWithProject
from control_domain.sites.settings import check_goal
from control_domain.tables.sites import Goal
from pipeline_contracts.errors import NameTaken, NotFound


async def list_goals(
    session: AsyncSession, found: SiteWithProject, page: Page
) -> tuple[Sequence[Goal], bool]:
    """Return a page of the goals of the site, newest first, and whether more follow."""
    query = select(Goal).where(Goal.site_id == found.site.id).order_by(Goal.id.desc()).limit(page.limit + 1)
    if page.before is not None:
        query = query.where(Goal.id < page.before)
    rows = (await session.execute(query)).scalars().all()
    return rows[: page.limit], len(rows) > page.limit


async def add_goal(
    session: AsyncSession,
    found: SiteWithProject,
    name: str | None,
    event: str | None,
    path: str | None,
    actor: Actor,
    now: datetime,
) -> Goal:
    """Create a goal, which also counts past visits. `name` None means the event or the path itself.

    Raises `InvalidInput`, `NameTaken`, and `Conflict` if the site has too many goals.
    """
    settings = check_goal(name, event, path)
    try:
        async with session.begin_nested():
            goal = await operations.add_goal(session, found.site, *settings, now)
    except BrokenReference:
        raise
    except IntegrityError:
        raise _name_taken(settings.name) from None
    _record(session, found, "goal.create", goal.id, settings._asdict(), actor, now)
    return goal


async def update_goal(
    session: AsyncSession,
    found: SiteWithProject,
    goal_id: int | None,
    name: str | None,
    event: str | None,
    path: str | None,
    actor: Actor,
    now: datetime,
) -> Goal:
    """Change a goal; None leaves a field unchanged. An event replaces a path, and vice versa.

    Raises `NotFound`, `InvalidInput` and `NameTaken`.
    """
    is_goal = (Goal.id == (goal_id or 0)) & (Goal.site_id == found.site.id)
    if not await lock_row(session, Goal.created_at, is_goal):
        raise _no_such_goal()
    goal = (await session.execute(select(Goal).where(is_goal))).scalar_one()
    if event is None and path is None:
        event, path = goal.event, goal.path
    settings = check_goal(goal.name if name is None else name, event, path)
    changed = {
        field: {"from": getattr(goal, field), "to": new}
        for field, new in settings._asdict().items()
        if new != getattr(goal, field)
    }
    if not changed:
        return goal
    try:
        async with session.begin_nested():
            await session.execute(update(Goal).where(is_goal).values(**settings._asdict()))
    except IntegrityError:
        raise _name_taken(settings.name) from None
    await session.refresh(goal)
    _record(session, found, "goal.set", goal.id, changed, actor, now)
    return goal


async def remove_goal(
    session: AsyncSession, found: SiteWithProject, goal_id: int | None, actor: Actor, now: datetime
) -> Goal:
    """Remove a goal and return it. Raises `NotFound`."""
    query = select(Goal).where(Goal.id == (goal_id or 0), Goal.site_id == found.site.id)
    goal = (await session.execute(query)).scalar_one_or_none()
    if goal is None or not await operations.remove_goal(session, found.site, goal.id):
        raise _no_such_goal()
    _record(session, found, "goal.remove", goal.id, {"name": goal.name}, actor, now)
    return goal


def _record(
    session: AsyncSession,
    found: SiteWithProject,
    action: str,
    goal_id: int,
    details: Mapping[str, Any],
    actor: Actor,
    now: datetime,
) -> None:
    account_id, subject = found.project.account_id, f"goal {goal_id}"
    record_audit_entry(session, actor, account_id, action, subject, now, {"site": found.site.id, **details})


def _name_taken(name: str) -> NameTaken:
    return NameTaken(f"The site has a goal with the name {name!r} already.")


def _no_such_goal() -> NotFound:
    return NotFound("The site has no such goal.")

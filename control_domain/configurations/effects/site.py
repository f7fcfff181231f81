"""Sites and their goals made, changed and removed by a configuration."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import select

from control_domain.configurations.addresses import GOALS, read_address, write_address
from control_domain.configurations.effects.check_unchanged import check_made, check_removable, find_due
from control_domain.configurations.effects.task import CannotCarryOut, Task, ToTell, tell_changes, tell_new
from control_domain.configurations.plan import Change
from control_domain.configurations.present_fields import site_fields
from control_domain.configurations.values import FIELDS
from control_domain.database.engine import hold_row
from control_domain.projects.hold import hold_project
from control_domain.sites.operations import (
    SeenSite,
    add_goal,
    change_domains,
    change_timezone,
    create_site,
    remove_goal,
    set_goal_target,
)
from control_domain.sites.remove_site import remove_site
from control_domain.tables.sites import Goal, Site


async def carry_out_on_site(task: Task) -> ToTell:
    """Make, change or remove the site with its goals. The edges are told of one that is new or served elsewhere."""
    verb = task.action.verb
    if verb == "create":
        await hold_project(task.session, task.project)
    site = await _hold(task)
    if site is None:
        if verb == "delete":
            return ToTell()
        if verb == "update":
            raise task.gone()
        return ToTell(sites=[(await _create(task)).id])
    goals = await _hold_goals(task, site)
    present = site_fields(site, goals.values())
    if verb == "delete":
        check_removable(task, present)
        return ToTell(
            forget=await remove_site(task.session, SeenSite(site, task.project), task.actor, task.now)
        )
    if verb == "create":
        check_made(task, present)
    else:
        await _change(task, site, goals, find_due(task, present))
    # Again, where it is done already: whoever has done it may have ended before the edges were told.
    has_domains = any(change.field == "domains" for change in task.action.changes)
    return ToTell(sites=[site.id]) if has_domains else ToTell()


async def _hold(task: Task) -> Site | None:
    """The site: nobody else changes it until the end of the transaction."""
    mine = (Site.project_id == task.project.id) & (Site.name == task.action.address[1])
    if not await hold_row(task.session, Site.timezone, mine):
        return None
    query = select(Site).where(mine).execution_options(populate_existing=True)
    return (await task.session.execute(query)).scalar_one()


async def _hold_goals(task: Task, site: Site) -> dict[str, Goal]:
    """The site's goals by their fields. One that somebody else removes at this moment is waited for."""
    query = (
        select(Goal)
        .where(Goal.site_id == site.id)
        .order_by(Goal.id)
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    goals = (await task.session.execute(query)).scalars()
    return {write_address((GOALS, goal.name)): goal for goal in goals}


async def _create(task: Task) -> Site:
    wanted: dict[str, Any] = {
        **FIELDS["site"],
        **{change.field: change.after for change in task.action.changes},
    }
    name = task.action.address[1]
    site = await create_site(
        task.session, task.project.id, name, wanted["timezone"], wanted["domains"], task.now
    )
    details = {"project": task.project.public_id, "name": name, **tell_new(task.action.changes)}
    task.record("site.create", _subject(site), details)
    await _change_goals(task, site, {}, task.action.changes)
    return site


async def _change(task: Task, site: Site, goals: Mapping[str, Goal], due: Sequence[Change]) -> None:
    if not due:
        return
    task.record("site.set", _subject(site), tell_changes(due))
    for change in due:
        wanted: Any = change.after
        if change.field == "timezone":
            await change_timezone(task.session, site, wanted)
        elif change.field == "domains" and not await change_domains(task.session, site, wanted):
            raise CannotCarryOut(f"{task.called} was changed meanwhile: domains; make a new review.")
    await _change_goals(task, site, goals, due)


async def _change_goals(task: Task, site: Site, goals: Mapping[str, Goal], changes: Iterable[Change]) -> None:
    for change in changes:
        if not change.field.startswith(GOALS):
            continue
        goal, wanted = goals.get(change.field), change.after
        if not isinstance(wanted, Mapping):
            if goal is not None:
                await remove_goal(task.session, site, goal.id)
        elif goal is None:
            name = read_address(f"{task.called}.{change.field}")[-1]
            await add_goal(task.session, site, name, wanted.get("event"), wanted.get("path"), task.now)
        elif not await set_goal_target(task.session, goal, wanted.get("event"), wanted.get("path")):
            raise task.gone()


def _subject(site: Site) -> str:
    return f"site {site.id}"

"""Create, change and remove sites and their goals."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import select

from control_domain.configurations.addresses import GOALS, read_address, write_address
from control_domain.configurations.plan import Change, desired_fields
from control_domain.configurations.project_state import build_site_fields
from control_domain.configurations.resources import FIELDS
from control_domain.configurations.steps.step_context import (
    Publications,
    StepContext,
    StepFailed,
    check_created,
    check_removable,
    describe_changes,
    describe_new_fields,
    find_remaining_changes,
)
from control_domain.database.statements import lock_row
from control_domain.projects.operations import lock_project_row
from control_domain.sites.operations import (
    SiteWithProject,
    add_goal,
    change_domains,
    change_timezone,
    create_site,
    remove_goal,
    remove_site,
    set_goal_target,
)
from control_domain.tables.sites import Goal, Site


async def apply_site_step(context: StepContext) -> Publications:
    """Create, change or remove the site with its goals. A new site, or one with other domains, is published."""
    verb = context.action.verb
    if verb == "create":
        await lock_project_row(context.session, context.project)
    site = await _hold(context)
    if site is None:
        if verb == "delete":
            return Publications()
        if verb == "update":
            raise context.fail_removed()
        return Publications(sites=[(await _create(context)).id])
    goals = await _hold_goals(context, site)
    current = build_site_fields(site, goals.values())
    if verb == "delete":
        check_removable(context, current)
        return Publications(
            revoke=await remove_site(
                context.session, SiteWithProject(site, context.project), context.actor, context.now
            )
        )
    if verb == "create":
        check_created(context, current)
    else:
        await _change(context, site, goals, find_remaining_changes(context, current))
    # Publish even if the change is already made: the worker that made it may have ended before publishing it.
    has_domains = any(change.field == "domains" for change in context.action.changes)
    return Publications(sites=[site.id]) if has_domains else Publications()


async def _hold(context: StepContext) -> Site | None:
    """Return the site, locked until the end of the transaction."""
    is_site = (Site.project_id == context.project.id) & (Site.name == context.action.address[1])
    if not await lock_row(context.session, Site.timezone, is_site):
        return None
    query = select(Site).where(is_site).execution_options(populate_existing=True)
    return (await context.session.execute(query)).scalar_one()


async def _hold_goals(context: StepContext, site: Site) -> dict[str, Goal]:
    """Return the site's goals by their fields, locked; waits for a concurrent removal."""
    query = (
        select(Goal)
        .where(Goal.site_id == site.id)
        .order_by(Goal.id)
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    goals = (await context.session.execute(query)).scalars()
    return {write_address((GOALS, goal.name)): goal for goal in goals}


async def _create(context: StepContext) -> Site:
    desired: dict[str, Any] = {
        **FIELDS["site"],
        **desired_fields(context.action.changes),
    }
    name = context.action.address[1]
    site = await create_site(
        context.session, context.project.id, name, desired["timezone"], desired["domains"], context.now
    )
    details = {
        "project": context.project.public_id,
        "name": name,
        **describe_new_fields(context.action.changes),
    }
    context.record("site.create", _subject(site), details)
    await _change_goals(context, site, {}, context.action.changes)
    return site


async def _change(
    context: StepContext, site: Site, goals: Mapping[str, Goal], remaining: Sequence[Change]
) -> None:
    if not remaining:
        return
    context.record("site.set", _subject(site), describe_changes(remaining))
    for change in remaining:
        desired: Any = change.after
        if change.field == "timezone":
            await change_timezone(context.session, site, desired)
        elif change.field == "domains" and not await change_domains(context.session, site, desired):
            raise StepFailed(f"{context.resource_name} was changed meanwhile: domains; make a new review.")
    await _change_goals(context, site, goals, remaining)


async def _change_goals(
    context: StepContext, site: Site, goals: Mapping[str, Goal], changes: Iterable[Change]
) -> None:
    of_goals = [change for change in changes if change.field.startswith(GOALS)]
    # Removals first, so that the site stays below its limit of goals.
    for change in sorted(of_goals, key=lambda change: change.after is not None):
        goal, desired = goals.get(change.field), change.after
        if not isinstance(desired, Mapping):
            if goal is not None:
                await remove_goal(context.session, site, goal.id)
        elif goal is None:
            name = read_address(f"{context.resource_name}.{change.field}")[-1]
            await add_goal(
                context.session, site, name, desired.get("event"), desired.get("path"), context.now
            )
        elif not await set_goal_target(context.session, goal, desired.get("event"), desired.get("path")):
            raise context.fail_removed()


def _subject(site: Site) -> str:
    return f"site {site.id}"

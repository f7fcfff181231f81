"""Previews as an operator handles them: opened, listed, closed."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import make_operator
from control_domain.database.public_ids import matches_id
from control_domain.environments.gates import (
    find_lowered,
    lock_variables_source,
    read_gate,
    require_second_person,
)
from control_domain.environments.settings import check_branch
from control_domain.keys import revoke_published_keys
from control_domain.previews import operations as previews
from control_domain.projects.find import DeployTarget
from control_domain.projects.resolve import resolve_environment, resolve_project, resolve_requester
from control_domain.refusals import Refused
from control_domain.sealing import CannotOpen
from control_domain.tables.projects import Environment, Project
from operator_actions.actions.choose_deployment import Chosen, describe_chosen
from operator_actions.actions.engines import Action, Engines, Params
from operator_actions.actions.list_processes import list_runtime
from operator_actions.actions.queue_deployments import check_asked
from operator_actions.actions.refuse_problems import refuse_problems
from operator_actions.actions.show_environment import describe_settings


async def _open(engines: Engines, params: Params, now: datetime) -> Any:
    """Make the preview of a branch, unless it is there, and queue a deployment of it: that is given. `params`: branch,
    project_id, from (an environment of the project whose variables it gets) and by, which may be left out."""
    branch = check_branch(params.get("branch"))
    async with engines.sessions() as session, session.begin():
        project = await resolve_project(session, params.get("project_id"))
        actor = await resolve_requester(session, project, params)
        with refuse_problems(f"The preview of {branch}", "run the command again."):
            source = None
            if params.get("from") is not None:
                source = DeployTarget(
                    await resolve_environment(session, str(params["from"]), project), project
                )
                await lock_variables_source(session, source.environment)
            target = await previews.open_preview(session, project, branch, actor, now)
            if source is not None:
                try:
                    await previews.copy_variables(session, engines.sealing_keys(), source, target, actor, now)
                except CannotOpen as error:
                    raise Refused(str(error)) from error
            deployment = await previews.deploy_preview(session, target, actor, now)
        check_asked(deployment)
        await session.flush()
        return describe_chosen(Chosen(deployment, *target))


async def _list(engines: Engines, params: Params, now: datetime) -> Any:
    """The previews: how each is set, and what runs of it. `params`: project_id, which may be left out."""
    async with engines.sessions() as session:
        query = select(Environment).where(Environment.type == previews.PREVIEW)
        if (called := params.get("project_id")) is not None:
            query = query.where(Environment.project_id == (await resolve_project(session, called)).id)
        found = {environment.public_id: environment for environment in (await session.scalars(query)).all()}
        running = await list_runtime(session, [environment.id for environment in found.values()])
        return [{**describe_settings(found[one["id"]]), **one} for one in running]


async def _close(engines: Engines, params: Params, now: datetime) -> Any:
    """Remove a preview; what is queued or being built for it is canceled. `params`: what (an environment, or its
    branch), project_id, which may be left out; where a second person is wanted there, by and approved_by."""
    async with engines.sessions() as session, session.begin():
        target = await _choose_preview(session, str(params["what"]), params.get("project_id"))
        called = f"{target.project.slug}/{target.environment.slug}"
        lowered = find_lowered(read_gate(target.environment), None)
        agreed = await require_second_person(session, target.project, called, lowered, params)
        with refuse_problems("Its deployment", "run the command again."):
            removed = await previews.close_preview(session, target, make_operator(params), now, agreed)
    told = {
        "id": target.environment.public_id,
        "slug": target.environment.slug,
        "branch": target.environment.branch,
        "project": target.project.slug,
        "removed": removed.counts,
    }
    await revoke_published_keys(engines.directory, removed.digests, told)
    return told


async def _choose_preview(session: AsyncSession, what: str, project: str | None) -> DeployTarget:
    """Raises `Refused` for no preview, and for several."""
    in_project, _, slug = what.rpartition("/")
    environment, of = Environment, Project
    query = (
        select(environment, of)
        .join(of, of.id == environment.project_id)
        .where(
            or_(
                (environment.type == previews.PREVIEW) & (environment.branch == what),
                matches_id(environment.id, environment.public_id, what),
                environment.slug == what,
                (of.slug == in_project) & (environment.slug == slug),
            )
        )
        .order_by(environment.id)
        .limit(10)
    )
    if project is not None:
        query = query.where(of.id == (await resolve_project(session, project)).id)
    places = [DeployTarget(*row) for row in await session.execute(query)]
    found = [target for target in places if target.environment.type == previews.PREVIEW]
    if len(found) > 1:
        ids = ", ".join(target.environment.public_id for target in found)
        raise Refused(f"Several previews are called {what!r}: name one by its ID ({ids}).")
    if found:
        return found[0]
    if places:
        called = f"{places[0].project.slug}/{places[0].environment.slug}"
        raise Refused(f"{called} is no preview: `pharos environment remove {called}` removes it.")
    raise Refused(f"There is no preview {what}; `pharos preview list` shows all.")


ACTIONS: Mapping[str, Action] = {
    "previews/open": _open,
    "previews/list": _list,
    "previews/close": _close,
}

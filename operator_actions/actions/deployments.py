"""Deployments as an operator handles them: listed, approved or rejected by a second person, called off."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from control_domain.accounts.roles import Right
from control_domain.audit import Actor, make_operator
from control_domain.deployments import decisions as decide
from control_domain.projects.resolve import resolve_environment, resolve_member, resolve_project
from control_domain.refusals import Refused
from control_domain.tables.accounts import Person
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment, Project
from operator_actions.actions.choose_deployment import Chosen, choose_deployment, describe_chosen
from operator_actions.actions.describe_waiting import describe_waiting
from operator_actions.actions.engines import Action, Engines, Params, read_id
from operator_actions.actions.reasons import read_reason
from operator_actions.actions.refuse_problems import refuse_problems
from pipeline_contracts.deploy_states import DeploymentStatus

MOST_LISTED = 1000
_REVISION = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")


async def _list(engines: Engines, params: Params, now: datetime) -> Any:
    """The newest, newest first. `params`: limit, and environment_id and project_id, which may be left out."""
    limit = params.get("limit", 20)
    if not isinstance(limit, int) or not 1 <= limit <= MOST_LISTED:
        raise Refused(f"The limit is 1 to {MOST_LISTED}.")
    async with engines.sessions() as session:
        newest = select(Deployment.id)
        if (called := params.get("environment_id")) is not None:
            newest = newest.where(
                Deployment.environment_id == (await resolve_environment(session, called)).id
            )
        if (called := params.get("project_id")) is not None:
            newest = newest.where(Deployment.project_id == (await resolve_project(session, called)).id)
        return await _described(session, newest.order_by(Deployment.id.desc()).limit(limit))


async def _list_waiting(engines: Engines, params: Params, now: datetime) -> Any:
    """The newest that wait for a second person, newest first, each with what it would run."""
    async with engines.sessions() as session:
        waiting = select(Deployment.id).where(Deployment.status == DeploymentStatus.AWAITING_APPROVAL)
        found = await _described(session, waiting.order_by(Deployment.id.desc()).limit(MOST_LISTED))
        inputs = await describe_waiting(session, [one["id"] for one in found])
        return [{**one, **inputs[one["id"]]} for one in found]


async def _described(session: AsyncSession, ids: Select[int]) -> list[dict[str, Any]]:
    """`asked_by` and `decided_by` are e-mail addresses."""
    asked, decided = aliased(Person), aliased(Person)
    query = (
        select(Deployment, Environment, Project, asked.email, decided.email)
        .join(Project, Project.id == Deployment.project_id)
        .outerjoin(Environment, Environment.id == Deployment.environment_id)
        .outerjoin(asked, asked.id == Deployment.asked_by_id)
        .outerjoin(decided, decided.id == Deployment.decided_by_id)
        .where(Deployment.id.in_(ids.scalar_subquery()))
        .order_by(Deployment.id.desc())
    )
    return [
        {**describe_chosen(Chosen(*row[:3])), "asked_by": row[3], "decided_by": row[4]}
        for row in await session.execute(query)
    ]


async def _approve(engines: Engines, params: Params, now: datetime) -> Any:
    """Queue what waits. `params`: id, by (an e-mail address), revision (needed where the commit is not known yet),
    digest (as `deployments/waiting` shows it; needed where something changed since the deployment began to wait)."""
    revision = _read_revision(params)
    shown = None if params.get("digest") is None else str(params["digest"]).lower()
    async with engines.sessions() as session, session.begin():
        seen = await choose_deployment(session, read_id(params, "id"))
        person, actor = await _second(session, seen, params)
        with _refusing(seen, "only one that waits can be approved; `pharos approvals` shows those that do."):
            if seen.environment is None:
                raise Refused(f"The environment of deployment {seen.deployment.id} was removed.")
            await decide.approve_deployment(
                session, seen.deployment, seen.environment, person, revision, actor, now, shown
            )
        await session.flush()
        inputs = await describe_waiting(session, [seen.deployment.id])
        return {**describe_chosen(seen), **inputs[seen.deployment.id]}


def _read_revision(params: Params) -> str | None:
    given = params.get("revision")
    if given is None:
        return None
    revision = str(given).lower()
    if _REVISION.fullmatch(revision) is None:
        raise Refused(
            "A revision is a whole commit of 40 or 64 hexadecimal digits: `git rev-parse` tells it."
        )
    return revision


async def _reject(engines: Engines, params: Params, now: datetime) -> Any:
    """End what waits. `params`: id, by, reason."""
    reason = read_reason(params)
    async with engines.sessions() as session, session.begin():
        seen = await choose_deployment(session, read_id(params, "id"))
        person, actor = await _second(session, seen, params)
        with _refusing(seen, "only one that waits can be rejected; `pharos approvals` shows those that do."):
            await decide.reject_deployment(session, seen.deployment, person, reason, actor, now)
        await session.flush()
        return describe_chosen(seen)


async def _cancel(engines: Engines, params: Params, now: datetime) -> Any:
    """Call one off that is not switched to yet. `params`: id."""
    async with engines.sessions() as session, session.begin():
        seen = await choose_deployment(session, read_id(params, "id"))
        with _refusing(seen, "only what is queued, waits or is being built can be canceled."):
            await decide.cancel_deployment(session, seen.deployment, make_operator(params), now)
        await session.flush()
        return describe_chosen(seen)


def _refusing(seen: Chosen, advice: str) -> Any:
    return refuse_problems(f"Deployment {seen.deployment.id}", advice)


async def _second(session: AsyncSession, seen: Chosen, params: Params) -> tuple[Person, Actor]:
    """Who decides. Raises `Refused` for somebody who may not."""
    person = await resolve_member(session, seen.project, str(params.get("by") or ""), Right.DECIDE)
    return person, make_operator(params, person.id)


ACTIONS: Mapping[str, Action] = {
    "deployments/list": _list,
    "deployments/waiting": _list_waiting,
    "deployments/approve": _approve,
    "deployments/reject": _reject,
    "deployments/cancel": _cancel,
}

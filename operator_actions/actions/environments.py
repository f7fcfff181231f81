"""Environments as an operator handles them: made, listed, shown, set, scaled, hibernated, locked, resumed,
removed."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import make_operator, record_audit_entry
from control_domain.database.errors import BrokenReference
from control_domain.environments import operations
from control_domain.environments import settings as read_wanted
from control_domain.environments.gates import (
    find_lowered,
    read_gate,
    require_approval_of_copies,
    require_second_person,
)
from control_domain.environments.locks import DeployLock, find_lock, lock_environment, unlock_environment
from control_domain.environments.operations import lock_deployer_lease, lock_environment_row
from control_domain.keys import revoke_published_keys
from control_domain.projects.find import DeployTarget
from control_domain.projects.operations import create_environment
from control_domain.projects.resolve import resolve_project, resolve_requester, resolve_target
from control_domain.refusals import Refused
from control_domain.removals.remove_environment import remove_environment
from control_domain.slugs import read_name, read_slug
from operator_actions.actions.engines import Action, Engines, Params
from operator_actions.actions.reasons import read_reason
from operator_actions.actions.refuse_problems import refuse_problems
from operator_actions.actions.show_environment import (
    describe_lock,
    describe_settings,
    describe_target,
    list_environments,
    show_environment,
)
from pipeline_contracts.deploy_states import EnvironmentState
from pipeline_contracts.errors import NotFound


async def _list(engines: Engines, params: Params, now: datetime) -> Any:
    """`params`: project_id, which may be left out."""
    async with engines.sessions() as session:
        called = params.get("project_id")
        project = None if called is None else await resolve_project(session, called)
        return list(await list_environments(session, project))


async def _show(engines: Engines, params: Params, now: datetime) -> Any:
    """`params`: id."""
    async with engines.sessions() as session:
        return await show_environment(session, await resolve_target(session, str(params["id"])))


async def _create(engines: Engines, params: Params, now: datetime) -> Any:
    """A new environment, without an ingest key. `params`: name, type, slug, project_id, order, branch."""
    name, type_ = read_name(params), read_wanted.read_type(params)
    slug = read_slug(params, name)
    position, branch = read_wanted.read_position(params), read_wanted.read_branch(params)
    try:
        async with engines.sessions() as session, session.begin():
            project = await resolve_project(session, params.get("project_id"))
            environment = await create_environment(session, project, name, slug, type_, now)
            environment.branch = branch
            if position is not None:
                environment.position = position
            details = {"project": project.public_id, "name": name, "slug": slug, "type": type_}
            subject = f"environment {environment.public_id}"
            record_audit_entry(
                session,
                make_operator(params),
                project.account_id,
                "environment.create",
                subject,
                now,
                details,
            )
            await session.flush()
            return describe_target(DeployTarget(environment, project), None)
    except BrokenReference:
        raise
    except IntegrityError:
        raise Refused(
            f"The project has an environment with the slug {slug!r} already; choose another with --slug."
        ) from None


@asynccontextmanager
async def _changing(
    engines: Engines, params: Params, *, what_is_deployed: bool = False
) -> AsyncIterator[tuple[AsyncSession, DeployTarget]]:
    """The environment that `params["id"]` names, held for one transaction, and its deployer held off first where
    `what_is_deployed` is to change. What operations refuse is `Refused`."""
    async with engines.sessions() as session, session.begin():
        target = await resolve_target(session, str(params["id"]))
        if what_is_deployed:
            await lock_deployer_lease(session, target.environment)
        try:
            await lock_environment_row(session, target.environment)
        except NotFound:
            raise Refused(f"{_called(target)} was removed by somebody else just now.") from None
        with refuse_problems(_called(target), "run the command again."):
            yield session, target


async def _set(engines: Engines, params: Params, now: datetime) -> Any:
    """Change an environment. `params`: id, and the changes (see `read_changes`); if they lower the gate, also by and
    approved_by. If deploys wait for approval from now on, the result lists as `gated_previews` the slugs of the
    previews with copies of the environment's variables, whose deploys then wait as well."""
    changes = read_wanted.read_changes(params)
    async with _changing(engines, params) as (session, target):
        before, gate = describe_settings(target.environment), read_gate(target.environment)
        for column, value in changes.items():
            setattr(target.environment, column, value)
        after = describe_settings(target.environment)
        lowered = find_lowered(gate, read_gate(target.environment))
        agreed = await require_second_person(session, target.project, _called(target), lowered, params)
        details: dict[str, Any] = {
            name: {"from": was, "to": after[name]} for name, was in before.items() if was != after[name]
        }
        details |= agreed
        if details:
            account, subject = target.project.account_id, f"environment {target.environment.public_id}"
            record_audit_entry(
                session, make_operator(params), account, "environment.set", subject, now, details
            )
        await session.flush()
        described = await _described(session, target)
        if gate.deploys or not target.environment.deploys_need_approval:
            return described
        return {
            **described,
            "gated_previews": await require_approval_of_copies(session, target, make_operator(params), now),
        }


async def _scale(engines: Engines, params: Params, now: datetime) -> Any:
    """`params`: id, replicas."""
    replicas = read_wanted.read_replicas(params)
    async with _changing(engines, params) as (session, target):
        await operations.scale_environment(session, target, replicas, make_operator(params), now)
        return await _described(session, target)


async def _change_state(engines: Engines, params: Params, now: datetime) -> Any:
    """`params`: id, state (`running` or `hibernated`)."""
    state = EnvironmentState(params["state"])
    async with _changing(engines, params) as (session, target):
        await operations.change_environment_state(session, target, state, make_operator(params), now)
        return await _described(session, target)


async def _lock(engines: Engines, params: Params, now: datetime) -> Any:
    """`params`: id, reason, by (an e-mail address, which may be left out). Where it is locked already, that is told
    and nothing changed."""
    reason = read_reason(params)
    async with _changing(engines, params) as (session, target):
        actor = await resolve_requester(session, target.project, params)
        if not await lock_environment(session, target, reason, actor, now):
            raise Refused(_told_locked(target, await find_lock(session, target.environment)))
        return await _described(session, target)


async def _unlock(engines: Engines, params: Params, now: datetime) -> Any:
    """`params`: id. `was` is the lock that was there; null where there was none."""
    async with _changing(engines, params) as (session, target):
        held = await unlock_environment(session, target, make_operator(params), now)
        told = await _described(session, target)
    return {**told, "was": None if held is None else describe_lock(held)}


async def _resume(engines: Engines, params: Params, now: datetime) -> Any:
    """Let pushes deploy again after a rollback. `params`: id. `resumed`: false where nothing was held."""
    async with _changing(engines, params, what_is_deployed=True) as (session, target):
        resumed = await operations.resume_pushes(session, target, make_operator(params), now)
        return {**await _described(session, target), "held": False, "resumed": resumed}


async def _remove(engines: Engines, params: Params, now: datetime) -> Any:
    """Remove an environment with all that belongs to it. `params`: id, and where a second person is wanted there, by
    and approved_by. Its keys work nowhere within 5 s."""
    async with _changing(engines, params, what_is_deployed=True) as (session, target):
        lowered = find_lowered(read_gate(target.environment), None)
        agreed = await require_second_person(session, target.project, _called(target), lowered, params)
        removed = await remove_environment(session, target, make_operator(params), now, agreed)
    told = {"id": target.environment.public_id, "slug": target.environment.slug, "removed": removed.counts}
    await revoke_published_keys(engines.directory, removed.digests, told)
    return told


def _called(target: DeployTarget) -> str:
    return f"Environment {target.project.slug}/{target.environment.slug}"


def _told_locked(target: DeployTarget, held: DeployLock | None) -> str:
    if held is None:
        return f"{_called(target)} was unlocked by somebody else just now: run the command again."
    by, since = held.by or "an operator", f"{held.since:%Y-%m-%d %H:%M} UTC"
    return (
        f"{_called(target)} is locked already, by {by} since {since}: {held.reason}; "
        f"`pharos unlock {target.environment.id}` ends that."
    )


async def _described(session: AsyncSession, target: DeployTarget) -> dict[str, Any]:
    return describe_target(target, await find_lock(session, target.environment))


ACTIONS: Mapping[str, Action] = {
    "environments/list": _list,
    "environments/show": _show,
    "environments/create": _create,
    "environments/set": _set,
    "environments/scale": _scale,
    "environments/state": _change_state,
    "environments/lock": _lock,
    "environments/unlock": _unlock,
    "environments/resume": _resume,
    "environments/remove": _remove,
}

"""What an operator brings to an environment: a deploy, the release before, what another environment has."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.deployments.operations import queue_promotion, queue_rollback
from control_domain.deployments.queue_deployment import DeploymentRequest, queue_deployment
from control_domain.projects.find import DeployTarget
from control_domain.projects.resolve import resolve_environment, resolve_requester, resolve_target
from control_domain.refusals import Refused
from control_domain.tables.deployments import Deployment, LiveRelease, Release
from control_domain.tables.projects import Environment
from operator_actions.actions.choose_deployment import Chosen, choose_deployment, describe_chosen
from operator_actions.actions.engines import Action, Engines, Params, read_id
from operator_actions.actions.refuse_problems import refuse_problems
from pipeline_contracts.deploy_states import DeploymentStatus
from pipeline_contracts.errors import NotPromotable
from pipeline_contracts.git_refs import is_ref

_LONGEST_NOTE = 500
_ADVICE = "run the command again."


async def _deploy(engines: Engines, params: Params, now: datetime) -> Any:
    """Queue what a branch, tag or commit has. `params`: environment_id, ref, by (an e-mail address); each may be left
    out."""
    ref = _read_ref(params)
    async with engines.sessions() as session, session.begin():
        target = await resolve_target(session, params.get("environment_id"))
        actor = await resolve_requester(session, target.project, params)
        with refuse_problems(_called(target), _ADVICE):
            made = await queue_deployment(session, target, DeploymentRequest("api", ref=ref), actor, now)
        return await _queued(session, Chosen(made, *target))


async def _roll_back(engines: Engines, params: Params, now: datetime) -> Any:
    """Queue that an earlier release becomes live again. `params`: environment_id, to (a deployment's number; left out:
    the release before the live one), by."""
    async with engines.sessions() as session, session.begin():
        chosen = await _what_to_bring_back(session, params)
        actor = await resolve_requester(session, chosen.project, params)
        with refuse_problems(f"Deployment {chosen.deployment.id}", _ADVICE):
            made = await queue_rollback(session, chosen.deployment, chosen.target, actor, now)
        return await _queued(session, Chosen(made, chosen.environment, chosen.project))


async def _promote(engines: Engines, params: Params, now: datetime) -> Any:
    """Queue that a later environment gets what another one has. `params`: what (a deployment's number, or an
    environment: what is live there), to (an environment of the same project), note, by."""
    note = _read_note(params)
    async with engines.sessions() as session, session.begin():
        chosen = await _what_to_promote(session, str(params["what"]))
        to = await resolve_environment(session, str(params["to"]), chosen.project)
        actor = await resolve_requester(session, chosen.project, params)
        try:
            with refuse_problems(f"Deployment {chosen.deployment.id}", _ADVICE):
                made, target = await queue_promotion(
                    session, chosen.deployment, chosen.target, to.public_id, note, actor, now
                )
        except Refused as refusal:
            raise _told(refusal, to) from refusal.__cause__
        return await _queued(session, Chosen(made, *target))


async def _queued(session: AsyncSession, made: Chosen) -> dict[str, Any]:
    check_asked(made.deployment)
    await session.flush()
    return describe_chosen(made)


def check_asked(deployment: Deployment) -> None:
    """Raises `Refused`, which is to take back what was written, where a second person has to agree to a deployment and
    nobody is named as the first."""
    if deployment.needs_approval and deployment.asked_by_id is None:
        raise Refused(
            "A second person has to agree to deploys to this environment: say who asks for it with --by EMAIL."
        )


async def _what_to_bring_back(session: AsyncSession, params: Params) -> Chosen:
    called = params.get("environment_id")
    if params.get("to") is None:
        target = await resolve_target(session, called)
        return await choose_deployment(session, await _before_the_live_one(session, target))
    chosen = await choose_deployment(session, read_id(params, "to"))
    if called is not None:
        target = await resolve_target(session, called)
        if chosen.deployment.environment_id != target.environment.id:
            went = "an environment that was removed" if chosen.target is None else _called(chosen.target)
            raise Refused(
                f"Deployment {chosen.deployment.id} went to {went}, not to {_called(target)}: `pharos deployments "
                f"--environment {_called(target)}` shows those that did."
            )
    return chosen


async def _before_the_live_one(session: AsyncSession, target: DeployTarget) -> int:
    """The deployment whose release was made last before the one that is live. Raises `Refused` where none is kept."""
    live = await _live_release(session, target)
    query = (
        select(Release.deployment_id)
        .join(Deployment, Deployment.id == Release.deployment_id)
        .where(
            Release.environment_id == target.environment.id,
            Release.id < live.id,
            Release.removed_at.is_(None),
            Deployment.status == DeploymentStatus.SUCCEEDED,
        )
        .order_by(Release.id.desc())
        .limit(1)
    )
    number = (await session.execute(query)).scalar_one_or_none()
    if number is None:
        raise Refused(
            f"{_called(target)} has no release that is kept and older than the live one, which deployment "
            f"{live.deployment_id} has built: there is nothing to go back to."
        )
    return number


async def _live_release(session: AsyncSession, target: DeployTarget) -> Release:
    query = (
        select(Release)
        .join(LiveRelease, LiveRelease.release_id == Release.id)
        .where(LiveRelease.environment_id == target.environment.id)
    )
    live = (await session.execute(query)).scalar_one_or_none()
    if live is None:
        raise Refused(
            f"Nothing is live in {_called(target)}: `pharos deploy {_called(target)}` brings something there."
        )
    return live


async def _what_to_promote(session: AsyncSession, what: str) -> Chosen:
    if what.isdecimal():
        return await choose_deployment(session, read_id({"what": what}, "what"))
    target = await resolve_target(session, what)
    return await choose_deployment(session, (await _live_release(session, target)).deployment_id)


def _told(refusal: Refused, to: Environment) -> Refused:
    """The API names the field that is wrong; an operator is told in words."""
    cause = refusal.__cause__
    if isinstance(cause, NotPromotable) and cause.errors[0].field == "target_environment_id":
        return Refused(
            f"The environment {to.slug} {cause.errors[0].message}: promote to one of a higher order."
        )
    return refusal


def _called(target: DeployTarget) -> str:
    return f"{target.project.slug}/{target.environment.slug}"


def _read_ref(params: Params) -> str | None:
    ref = params.get("ref")
    if ref is not None and not is_ref(str(ref)):
        raise Refused(f"{str(ref)[:100]!r} is no branch, tag or commit that Git allows; one is main.")
    return None if ref is None else str(ref)


def _read_note(params: Params) -> str | None:
    note = str(params.get("note") or "").strip()
    if len(note) > _LONGEST_NOTE or not note.isprintable():
        raise Refused(f"A note has up to {_LONGEST_NOTE} printable characters: give a shorter one.")
    return note or None


ACTIONS: Mapping[str, Action] = {
    "deployments/deploy": _deploy,
    "deployments/roll-back": _roll_back,
    "deployments/promote": _promote,
}

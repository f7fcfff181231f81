"""A deploy, a rollback or a promotion becomes a deployment that waits for the deployer."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record
from control_domain.database.engine import insert_unless_there
from control_domain.deployments.frozen import freeze, present_inputs
from control_domain.deployments.moves import add_line
from control_domain.environments.check_open import check_open
from control_domain.environments.hold import hold_environment
from control_domain.projects.find import Place
from control_domain.repositories.operations import connected_repository
from control_domain.tables.deployments import Deployment
from pipeline_contracts.deploy_states import ACTIVE, DeploymentStatus
from pipeline_contracts.errors import DeployRunning, EnvironmentNotReady, FieldError, NotFound
from pipeline_contracts.git_refs import is_commit

Trigger = Literal["api", "push", "pull_request", "rollback", "promotion"]
_SHORT = 7


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be brought to the environment."""

    trigger: Trigger
    repository_id: int | None = None
    """Where it was built from; None: it is built from the project's repository of now."""
    ref: str | None = None
    revision: str | None = None
    promoted_from_id: int | None = None
    rolled_back_to_id: int | None = None
    note: str | None = None
    """Why, or of a webhook who: `pushed by ada`."""
    pushed_revision: str | None = None
    """The commit of which a webhook has told, or the beginning of it."""
    pushed_from: str | None = None


async def queue_deployment(
    session: AsyncSession, place: Place, wish: Wish, actor: Actor, now: datetime
) -> Deployment:
    """Queue a new deployment. In an environment with a gate, the deployment waits for approval instead.

    A rollback needs no approval: it restores a former live release with its variables. Raises the errors of
    `check_open`, `EnvironmentNotReady` if the project has no repository, `DeployRunning`, and `NotFound` if the
    environment was removed meanwhile.
    """
    environment, project = place
    await check_open(session, environment, now)
    repository_id, branch = wish.repository_id, environment.branch
    if repository_id is None:
        repository = await connected_repository(session, project.id)
        if repository is None:
            raise EnvironmentNotReady(
                "The project has no repository: connect one with `pharos repository connect`.",
                errors=[FieldError("repository", "is not connected")],
            )
        repository_id, branch = repository.id, branch or repository.branch
    needs_approval = environment.deploys_need_approval and wish.trigger != "rollback"
    if needs_approval:
        # Lock until the end of the transaction: a push cancels older deployments of its branch, and two concurrent
        # pushes would not see each other. Read the settings again: the gate may be off by now.
        await hold_environment(session, environment)
        needs_approval = environment.deploys_need_approval
    deployment = await _insert(session, place, repository_id, wish, needs_approval, actor, now)
    details = {
        "environment": environment.public_id,
        "trigger": wish.trigger,
        "ref": wish.ref,
        "note": wish.note,
    }
    record(
        session, actor, project.account_id, "deployment.queue", f"deployment {deployment.id}", now, details
    )
    add_line(session, deployment.id, f"Queued: {_told(wish, wish.ref or branch or 'the branch')}.", now)
    if needs_approval:
        add_line(session, deployment.id, "Waits for the approval of a second person.", now)
    return deployment


def _told(wish: Wish, ref: str) -> str:
    match wish.trigger:
        case "push" | "pull_request":
            at = "" if wish.pushed_revision is None else f" at {wish.pushed_revision[:_SHORT]}"
            return f"{ref}{at}" if wish.note is None else f"{ref}{at}, {wish.note}"
        case "rollback":
            return f"the release of deployment {wish.rolled_back_to_id} again"
        case "promotion":
            return f"the release of deployment {wish.promoted_from_id}"
    return ref


def revision_to_approve(revision: str | None, pushed_revision: str | None) -> str | None:
    """The commit that a second person is to agree to; None: that person has to name it."""
    if revision is None and pushed_revision is not None and is_commit(pushed_revision):
        return pushed_revision
    return revision


async def _insert(
    session: AsyncSession,
    place: Place,
    repository_id: int,
    wish: Wish,
    needs_approval: bool,
    actor: Actor,
    now: datetime,
) -> Deployment:
    """Raises `DeployRunning` where the index says that there is an active one: of any number at once, one gets in; and
    `NotFound` where the environment was removed meanwhile."""
    revision = wish.revision
    status = DeploymentStatus.QUEUED
    if needs_approval:
        # With this status from the beginning: as an active one it would have a place in the index of active ones, for
        # which an approval of an older one waits, while this transaction waits for that one to call it off.
        status = DeploymentStatus.AWAITING_APPROVAL
        if await _find_active(session, place.environment.id) is not None:
            raise await deploy_running(session, place.environment.id)
        revision = revision_to_approve(revision, wish.pushed_revision)
    values = {
        "account_id": place.project.account_id,
        "project_id": place.project.id,
        "repository_id": repository_id,
        "environment_id": place.environment.id,
        "status": status.value,
        "trigger": wish.trigger,
        "ref": wish.ref,
        "revision": revision,
        "promoted_from_id": wish.promoted_from_id,
        "rolled_back_to_id": wish.rolled_back_to_id,
        "note": wish.note,
        "asked_by_id": actor.person_id,
        "needs_approval": needs_approval,
        "created_at": now,
        "pushed_revision": wish.pushed_revision,
        "pushed_from": wish.pushed_from,
    }
    if needs_approval:
        inputs = await present_inputs(
            session, place, repository_id, revision, wish.promoted_from_id or wish.rolled_back_to_id
        )
        values |= freeze(inputs, now)
    made = insert_unless_there(session, Deployment, values).returning(Deployment)
    try:
        deployment: Deployment | None = (await session.execute(made)).scalar_one_or_none()
    except IntegrityError:
        # What it refers to: the environment was removed since it was looked for.
        raise NotFound("The account has no such environment.") from None
    if deployment is None:
        raise await deploy_running(session, place.environment.id)
    return deployment


async def deploy_running(session: AsyncSession, environment_id: int) -> DeployRunning:
    """The refusal that names the environment's active deployment."""
    # None: it has ended since. The refusal was right when it was found.
    number = await _find_active(session, environment_id)
    told = "A deployment" if number is None else f"Deployment {number}"
    return DeployRunning(
        f"{told} of this environment is not finished. Wait for it, then ask again.",
        members={"active_deployment_id": number},
    )


async def _find_active(session: AsyncSession, environment_id: int) -> int | None:
    active = select(Deployment.id).where(
        Deployment.environment_id == environment_id, Deployment.status.in_(ACTIVE)
    )
    return (await session.execute(active)).scalar_one_or_none()

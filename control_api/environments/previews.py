"""Previews: an environment of its own for a branch, made to be deployed at once, and removed when it is done with."""

import hashlib
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_api.audit.operations import Actor, record
from control_api.deployments.decide import cancel_deployment
from control_api.deployments.queue_deployment import Wish, queue_deployment
from control_api.deployments.tables import Deployment
from control_api.environments.hold import hold_environment, hold_off_deployer
from control_api.environments.operations import change_state
from control_api.environments.remove_environment import Removed, remove_environment
from control_api.projects.find import Place
from control_api.projects.operations import create_environment
from control_api.projects.tables import Environment, Project
from control_api.refusals import Refused
from control_api.slugs import LONGEST_NAME, LONGEST_SLUG, make_slug
from control_api.variables.operations import open_variables, present_variables, replace_variables
from control_api.variables.sealing import SealingKeys
from pipeline_contracts.deploy_states import ACTIVE, DeploymentStatus, EnvironmentState

PREVIEW = "preview"


async def open_preview(
    session: AsyncSession, project: Project, branch: str, actor: Actor, now: datetime
) -> Place:
    """The environment of the branch, made where there is none yet, and awake. Nothing is deployed by this.

    Raises `Refused` where somebody else makes the same at this moment.
    """
    found = await find_previews(session, project, branch)
    if found:
        place = Place(found[0], project)
        await change_state(session, place, EnvironmentState.RUNNING, actor, now)
        return place
    slug = await _free_slug(session, project, branch)
    name = f"Preview of {branch}"
    try:
        # A savepoint: on Postgres a statement that fails would end the transaction.
        async with session.begin_nested():
            made = await create_environment(session, project, _shorten(name), slug, PREVIEW, now)
    except IntegrityError:
        raise Refused(
            f"Somebody else has just made the environment {project.slug}/{slug}: try again."
        ) from None
    made.branch = branch
    made.wake_on_request = True
    subject = f"environment {made.public_id}"
    details = {
        "project": project.public_id,
        "name": made.name,
        "slug": slug,
        "type": PREVIEW,
        "branch": branch,
    }
    record(session, actor, project.account_id, "environment.create", subject, now, details)
    await session.flush()
    return Place(made, project)


async def find_previews(session: AsyncSession, project: Project, branch: str) -> Sequence[Environment]:
    """The environments of type preview that this branch is deployed to, the oldest first."""
    query = (
        select(Environment)
        .where(
            Environment.project_id == project.id, Environment.type == PREVIEW, Environment.branch == branch
        )
        .order_by(Environment.id)
    )
    return (await session.execute(query)).scalars().all()


async def _free_slug(session: AsyncSession, project: Project, branch: str) -> str:
    """`preview-` and the branch; where that is another environment's, or too long, with a part of the branch's hash:
    `feature/a` and `feature-a` are two branches."""
    # Of 40 bits: among a thousand previews of a project no two are alike.
    digest = hashlib.sha256(branch.encode()).hexdigest()[:10]
    words = make_slug(branch)
    slug = f"{PREVIEW}-{words}" if words else f"{PREVIEW}-{digest}"
    taken = select(Environment.id).where(Environment.project_id == project.id, Environment.slug == slug)
    if len(slug) <= LONGEST_SLUG and await session.scalar(taken) is None:
        return slug
    return f"{slug[: LONGEST_SLUG - len(digest) - 1].rstrip('-')}-{digest}"


def _shorten(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


async def copy_variables(
    session: AsyncSession, keys: SealingKeys, source: Place, place: Place, actor: Actor, now: datetime
) -> int:
    """Give `place` the variables that `source` has now, for its next release; gives how many.

    They are opened and sealed anew: sealed ones open for their own environment alone. Raises `CannotOpen`.
    """
    present = await present_variables(session, source.environment)
    values = open_variables(keys, present, source.environment.public_id)
    await replace_variables(session, keys, place, values, actor, now)
    return len(values)


async def deploy_preview(session: AsyncSession, place: Place, actor: Actor, now: datetime) -> Deployment:
    """Queue a deployment of the preview's branch. One that is queued already serves: it takes what the branch has when
    it is taken up. Raises what `queue_deployment` raises."""
    query = select(Deployment).where(
        Deployment.environment_id == place.environment.id, Deployment.status == DeploymentStatus.QUEUED
    )
    queued = (await session.execute(query)).scalar_one_or_none()
    if queued is not None:
        return queued
    return await queue_deployment(session, place, Wish("api"), actor, now)


async def close_preview(session: AsyncSession, place: Place, actor: Actor, now: datetime) -> Removed:
    """Cancel what is queued or being built for it, and remove it.

    Raises `Refused` while a deployment of it is past that, and `NotFound` and `ForbiddenMove` where somebody else was
    quicker.
    """
    environment = place.environment
    await hold_off_deployer(session, environment)
    await hold_environment(session, environment)
    query = select(Deployment).where(
        Deployment.environment_id == environment.id, Deployment.status.in_(ACTIVE)
    )
    active = (await session.execute(query.with_for_update())).scalar_one_or_none()
    if active is not None and active.status == DeploymentStatus.RUNNING:
        raise Refused(
            f"Deployment {active.id} of {place.project.slug}/{environment.slug} is past its build and is being "
            "started: wait until it is finished, then close the preview."
        )
    if active is not None:
        await cancel_deployment(session, active, actor, now)
    return await remove_environment(session, place, actor, now)

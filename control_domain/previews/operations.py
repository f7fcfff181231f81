"""Opens, deploys and closes previews."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.database.errors import BrokenReference
from control_domain.deployments.decisions import cancel_deployment
from control_domain.deployments.queue_deployment import DeploymentRequest, queue_deployment
from control_domain.environments.gates import require_approval
from control_domain.environments.operations import (
    change_environment_state,
    lock_deployer_lease,
    lock_environment_row,
)
from control_domain.projects.find import DeployTarget
from control_domain.projects.operations import create_environment
from control_domain.removals.remove_environment import RemovedEnvironment, remove_environment
from control_domain.sealing import CannotOpen, SealingKeys
from control_domain.slugs import MAX_NAME_LENGTH, MAX_SLUG_LENGTH, make_slug
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment, Project
from control_domain.tables.webhooks import ClosingPreview
from control_domain.variables.operations import replace_variables
from control_domain.variables.protection import open_for_preview
from pipeline_contracts.deploy_states import ACTIVE_STATUSES, DeploymentStatus, EnvironmentState
from pipeline_contracts.errors import Conflict, NotFound, RepositoryNotReady

PREVIEW = "preview"


class StillStarting(Conflict):
    """The preview cannot be closed yet: its deployment is past the build."""


async def open_preview(
    session: AsyncSession, project: Project, branch: str, actor: Actor, now: datetime
) -> DeployTarget:
    """Return the preview of the branch, running; create it if there is none. Deploys nothing.

    Raises `Conflict` if another request creates the same preview at this moment, and if the project has too many.
    """
    # Choose the slug before searching. If another request opens a preview of this branch in between, the search finds
    # it or the unique slug refuses ours. In the other order we would pick a second slug and open a second preview.
    slug = await _free_slug(session, project, branch)
    found = await find_previews(session, project, branch)
    if found:
        target = DeployTarget(found[0], project)
        await _reopen(session, target, branch, actor, now)
        return target
    made = await _create(session, project, _shorten(f"Preview of {branch}"), slug, branch, actor, now)
    if made is None:
        raise Conflict(f"Another request has just created the environment {project.slug}/{slug}: try again.")
    return made


async def open_pull_request_preview(
    session: AsyncSession,
    project: Project,
    number: int,
    ref: str,
    source: DeployTarget,
    keys: SealingKeys,
    actor: Actor,
    now: datetime,
) -> tuple[DeployTarget, bool]:
    """Return the preview `pr-<number>` of `ref`, running, and True if it was created. Deploys nothing.

    A new preview gets the variables of `source`, except protected ones. Writes nothing and raises `RepositoryNotReady`
    if an environment of that slug or `source` is unsuitable, if another request creates the same preview at this
    moment, if the project has too many previews, and if the variables cannot be opened.
    """
    slug = _pull_request_slug(number)
    found = await _find_by_slug(session, project, slug)
    if found is not None and found.type != PREVIEW:
        raise RepositoryNotReady(
            f"The environment {project.slug}/{slug} is not a preview: give it another slug, or remove it."
        )
    if found is not None:
        try:
            await _reopen(session, DeployTarget(found, project), ref, actor, now)
            return DeployTarget(found, project), False
        except NotFound:
            # It was closed meanwhile. Forget the object, because the new row may get the same ID.
            session.expunge(found)
    if source.environment.type == PREVIEW:
        raise RepositoryNotReady(
            f"The workflow's triggers copy variables from {source.environment.slug}, which is a preview: name another "
            "environment."
        )
    values = await _open_for_pull_request(session, keys, source)
    try:
        made = await _create(session, project, f"Pull request {number}", slug, ref, actor, now)
    except Conflict as error:
        raise RepositoryNotReady(error.detail) from error
    if made is None:
        raise RepositoryNotReady(f"Another request has just created the environment {project.slug}/{slug}.")
    await replace_variables(session, keys, made, values, actor, now)
    await _record_variables_source(session, made, values, source, actor, now)
    return made, True


async def find_pull_request_preview(
    session: AsyncSession, project: Project, number: int
) -> Environment | None:
    """Return the preview of the pull request with this number, or None."""
    found = await _find_by_slug(session, project, _pull_request_slug(number))
    return found if found is not None and found.type == PREVIEW else None


def _pull_request_slug(number: int) -> str:
    return f"pr-{number}"


async def _find_by_slug(session: AsyncSession, project: Project, slug: str) -> Environment | None:
    query = select(Environment).where(Environment.project_id == project.id, Environment.slug == slug)
    return (await session.execute(query)).scalar_one_or_none()


async def _open_for_pull_request(
    session: AsyncSession, keys: SealingKeys, source: DeployTarget
) -> dict[str, str]:
    try:
        return await open_for_preview(session, keys, source.environment)
    except CannotOpen:
        name = f"{source.project.slug}/{source.environment.slug}"
        raise RepositoryNotReady(
            f"The variables of {name} cannot be opened with the keys of this installation: set them again."
        ) from None


async def _reopen(
    session: AsyncSession, target: DeployTarget, branch: str, actor: Actor, now: datetime
) -> None:
    """Set an existing preview to this branch and to running, and cancel its pending closing. Raises `NotFound` if it
    was removed meanwhile."""
    environment = target.environment
    await lock_environment_row(session, environment)
    closing = ClosingPreview.environment_id == environment.id
    await session.execute(delete(ClosingPreview).where(closing).execution_options(synchronize_session=False))
    if environment.branch != branch:
        details = {"branch": {"from": environment.branch, "to": branch}}
        environment.branch = branch
        account, subject = target.project.account_id, f"environment {environment.public_id}"
        record_audit_entry(session, actor, account, "environment.set", subject, now, details)
        await session.flush()
    await change_environment_state(session, target, EnvironmentState.RUNNING, actor, now)


async def _create(
    session: AsyncSession, project: Project, name: str, slug: str, branch: str, actor: Actor, now: datetime
) -> DeployTarget | None:
    """Return None if another request has just created an environment of this slug."""
    try:
        # A savepoint, because on Postgres a failed statement aborts the transaction.
        async with session.begin_nested():
            made = await create_environment(session, project, name, slug, PREVIEW, now)
    except BrokenReference:
        # The project was removed.
        raise
    except IntegrityError:
        return None
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
    record_audit_entry(session, actor, project.account_id, "environment.create", subject, now, details)
    await session.flush()
    return DeployTarget(made, project)


async def find_previews(session: AsyncSession, project: Project, branch: str) -> Sequence[Environment]:
    """Return the previews of this branch, oldest first."""
    query = (
        select(Environment)
        .where(
            Environment.project_id == project.id, Environment.type == PREVIEW, Environment.branch == branch
        )
        .order_by(Environment.id)
    )
    return (await session.execute(query)).scalars().all()


async def _free_slug(session: AsyncSession, project: Project, branch: str) -> str:
    """Return `preview-` and the branch; if that is taken or too long, with a part of the hash of the branch.

    `feature/a` and `feature-a` are two branches.
    """
    # 40 bits: a collision among a thousand previews of a project is improbable.
    digest = hashlib.sha256(branch.encode()).hexdigest()[:10]
    words = make_slug(branch)
    slug = f"{PREVIEW}-{words}" if words else f"{PREVIEW}-{digest}"
    taken = select(Environment.id).where(Environment.project_id == project.id, Environment.slug == slug)
    if len(slug) <= MAX_SLUG_LENGTH and await session.scalar(taken) is None:
        return slug
    return f"{slug[: MAX_SLUG_LENGTH - len(digest) - 1].rstrip('-')}-{digest}"


def _shorten(name: str) -> str:
    return name if len(name) <= MAX_NAME_LENGTH else f"{name[: MAX_NAME_LENGTH - 1]}…"


async def copy_variables(
    session: AsyncSession,
    keys: SealingKeys,
    source: DeployTarget,
    target: DeployTarget,
    actor: Actor,
    now: datetime,
) -> int:
    """Copy the current variables of `source`, except protected ones, to the next release of `target`; return how many.

    The copy decrypts and encrypts each variable again: a sealed variable opens only for its own environment. `source`
    must not be a preview: a copy of a copy would hide which variables are protected and which gate applies. Call
    `lock_variables_source` before creating or locking `target`. Raises `CannotOpen`, and `Conflict` if a second person
    has to approve variables of the preview, because it would be deployed without the copies.
    """
    assert source.environment.type != PREVIEW
    if target.environment.variables_need_approval:
        raise Conflict(
            f"Variables of {target.environment.slug} need the approval of a second person: open it without copying "
            "any, or change its variables first."
        )
    values = await open_for_preview(session, keys, source.environment)
    await replace_variables(session, keys, target, values, actor, now)
    await _record_variables_source(session, target, values, source, actor, now)
    return len(values)


async def _record_variables_source(
    session: AsyncSession,
    target: DeployTarget,
    values: Mapping[str, str],
    source: DeployTarget,
    actor: Actor,
    now: datetime,
) -> None:
    """Store the source of a preview's variables, and turn approvals on for the preview if the source has them on: code
    gets the variables only after an approval."""
    if not values:
        return
    target.environment.variables_of_id = source.environment.id
    gated = select(Environment.deploys_need_approval).where(Environment.id == source.environment.id)
    if await session.scalar(gated) and not target.environment.deploys_need_approval:
        require_approval(session, target, source, actor, now)
    await session.flush()


async def deploy_preview(
    session: AsyncSession,
    target: DeployTarget,
    actor: Actor,
    now: datetime,
    request: DeploymentRequest | None = None,
) -> Deployment:
    """Queue a deployment of the preview's branch, or the given one, and return it.

    Returns a queued deployment of the same branch if there is one, since it builds the head of the branch when it
    starts. Raises the errors of `queue_deployment`.
    """
    request = DeploymentRequest("api") if request is None else request
    query = select(Deployment).where(
        Deployment.environment_id == target.environment.id, Deployment.status == DeploymentStatus.QUEUED
    )
    queued = (await session.execute(query)).scalar_one_or_none()
    if queued is not None and _serves(request, queued, target.environment):
        return queued
    return await queue_deployment(session, target, request, actor, now)


def _serves(request: DeploymentRequest, queued: Deployment, environment: Environment) -> bool:
    """Return True if the queued deployment builds the same branch and neither of the two names a commit."""
    same = (queued.ref or environment.branch) == (request.ref or environment.branch)
    return same and queued.revision is None and request.revision is None


async def close_preview(
    session: AsyncSession,
    target: DeployTarget,
    actor: Actor,
    now: datetime,
    agreed: Mapping[str, Any] | None = None,
) -> RemovedEnvironment:
    """Cancel a queued or building deployment of the preview, and remove the preview.

    `agreed`: see `remove_environment`. Raises `StillStarting` while a deployment is past its build, and `NotFound` or
    `ForbiddenTransition` if another request was faster.
    """
    environment = target.environment
    await lock_deployer_lease(session, environment)
    await lock_environment_row(session, environment)
    query = select(Deployment).where(
        Deployment.environment_id == environment.id, Deployment.status.in_(ACTIVE_STATUSES)
    )
    active = (await session.execute(query.with_for_update())).scalar_one_or_none()
    if active is not None and active.status == DeploymentStatus.RUNNING:
        raise StillStarting(
            f"Deployment {active.id} of {target.project.slug}/{environment.slug} is past its build and is being "
            "started: wait until it is finished, then close the preview."
        )
    if active is not None:
        await cancel_deployment(session, active, actor, now)
    return await remove_environment(session, target, actor, now, agreed)

"""Creates, deploys and removes the previews of pull requests."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.audit import Actor, write_actor
from control_domain.database.statements import insert_if_absent
from control_domain.deployments.queue_deployment import DeploymentRequest
from control_domain.previews.operations import (
    StillStarting,
    close_preview,
    deploy_preview,
    find_pull_request_preview,
    open_pull_request_preview,
)
from control_domain.previews.requests import close_requested_preview
from control_domain.projects.find import DeployTarget
from control_domain.sealing import SealingKeys
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment
from control_domain.tables.webhooks import ClosingPreview
from control_domain.webhooks.outcome import Outcome, Status, ignored
from control_domain.webhooks.process_push import is_skipped
from control_domain.webhooks.targets import Target, find_trigger_environment, find_triggers, raising_not_ready
from control_domain.webhooks.waiting_pushes import cancel_superseded, drop_waiting_pushes, store_waiting_push
from git_hosts.webhook_events import PullRequest
from pipeline_contracts.deploy_states import ACTIVE_STATUSES, DeploymentStatus, ForbiddenTransition
from pipeline_contracts.errors import DeployRunning, NotFound, RepositoryNotReady
from pipeline_contracts.git_refs import is_commit


async def process_pull_request(
    session: AsyncSession,
    target: Target,
    pull: PullRequest,
    keys: SealingKeys,
    actor: Actor,
    now: datetime,
    caller: Caller | None = None,
) -> Outcome:
    """Create, deploy or remove the preview of the pull request.

    `caller`: the person who replays the delivery. Raises `RepositoryNotReady`, and `DeployNotAllowed` if the caller may
    not remove the preview.
    """
    if pull.action == "closed":
        return await _close(session, target, pull, actor, now, caller)
    triggers = await find_triggers(session, target.project)
    if triggers.pull_requests is None:
        return ignored("The workflow makes no previews of pull requests.")
    if pull.is_fork and not target.repository.allows_forks:
        return ignored(
            "It comes from a fork, which anybody may write, and the repository does not allow previews of forks."
        )
    ref = pull.ref if pull.is_fork else pull.branch
    if ref is None:
        return ignored("It comes from a fork, and this host does not keep a branch of it in the repository.")
    if is_skipped(triggers, pull.message):
        return Outcome("skipped", reason=f"The head commit has {triggers.skip}.")
    source = await find_trigger_environment(session, target.project, triggers.pull_requests.from_)
    deploy_target, is_new = await open_pull_request_preview(
        session, target.project, pull.number, ref, source, keys, actor, now
    )
    is_opened = is_new or pull.action == "opened"
    return await _deploy(session, target, pull, deploy_target, ref, is_opened, actor, now)


async def _deploy(
    session: AsyncSession,
    target: Target,
    pull: PullRequest,
    deploy_target: DeployTarget,
    ref: str,
    is_opened: bool,
    actor: Actor,
    now: datetime,
) -> Outcome:
    existing = await _find_deployment_of(session, deploy_target.environment, pull.revision)
    if existing is not None:
        return Outcome("preview_updated", existing.id, reason="This commit is deployed already.")
    sender = "" if pull.sender is None else f" by {pull.sender}"
    request = DeploymentRequest(
        "pull_request",
        repository_id=target.repository.id,
        ref=ref,
        note=f"pull request {pull.number}{sender}",
        pushed_revision=pull.revision if pull.revision is not None and is_commit(pull.revision) else None,
    )
    status: Status = "preview_queued" if is_opened else "preview_updated"
    await drop_waiting_pushes(session, deploy_target.environment, ref)
    try:
        with raising_not_ready(deploy_target.environment):
            deployment = await deploy_preview(session, deploy_target, actor, now, request)
        # A deployment that was already queued builds this commit too.
        deployment.pushed_revision = request.pushed_revision
        await cancel_superseded(session, deployment, now)
    except DeployRunning:
        await store_waiting_push(session, deploy_target, request, ref, actor, now)
        return Outcome(
            status, reason=f"{deploy_target.environment.slug} is being deployed to.", is_accepted=True
        )
    return Outcome(status, deployment.id, is_accepted=True)


async def _find_deployment_of(
    session: AsyncSession, environment: Environment, revision: str | None
) -> Deployment | None:
    """Return the newest deployment if it deploys this commit: hosts also send events for changes without new code."""
    query = (
        select(Deployment)
        .where(Deployment.environment_id == environment.id)
        .order_by(Deployment.id.desc())
        .limit(1)
    )
    newest = (await session.execute(query)).scalar_one_or_none()
    if (
        newest is None
        or revision is None
        or newest.status not in (*ACTIVE_STATUSES, DeploymentStatus.SUCCEEDED)
    ):
        return None
    return newest if (newest.revision or "").startswith(revision) else None


async def _close(
    session: AsyncSession,
    target: Target,
    pull: PullRequest,
    actor: Actor,
    now: datetime,
    caller: Caller | None,
) -> Outcome:
    environment = await find_pull_request_preview(session, target.project, pull.number)
    if environment is None:
        return ignored("It has no preview.")
    if await _keeps_closed_previews(session, target):
        return ignored("The workflow keeps previews of closed pull requests.")
    deploy_target = DeployTarget(environment, target.project)
    try:
        if caller is None:
            removed = await close_preview(session, deploy_target, actor, now)
        else:
            removed = await close_requested_preview(session, caller, deploy_target, actor, now)
    except (StillStarting, ForbiddenTransition):
        await _close_later(session, environment, actor, now)
        reason = "A deployment of it is being started; the preview is removed after that."
        return Outcome("preview_closed", reason=reason, is_accepted=True)
    except NotFound:
        return ignored("Its preview was removed already.")
    return Outcome("preview_closed", removed_key_digests=tuple(removed.digests))


async def _keeps_closed_previews(session: AsyncSession, target: Target) -> bool:
    try:
        pulls = (await find_triggers(session, target.project)).pull_requests
    except RepositoryNotReady:
        # Close the preview even if the workflow became unusable.
        return False
    return pulls is not None and pulls.close == "keep"


async def _close_later(session: AsyncSession, environment: Environment, actor: Actor, now: datetime) -> None:
    await drop_waiting_pushes(session, environment)
    values = {"environment_id": environment.id, **write_actor(actor), "created_at": now}
    await session.execute(insert_if_absent(session, ClosingPreview, values))

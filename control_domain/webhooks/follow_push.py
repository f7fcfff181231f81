"""A push deploys the environments whose triggers name its branches."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor
from control_domain.deployments.queue_deployment import DeploymentRequest, queue_deployment
from control_domain.projects.find import Place
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment
from control_domain.webhooks.outcome import Outcome, ignored, sum_up
from control_domain.webhooks.targets import Target, find_place, find_triggers, is_held, taking_deploys
from control_domain.webhooks.waiting import drop_waiting, drop_waiting_of_branch, let_wait, supersede
from control_domain.workflows.document import Triggers
from git_hosts.webhook_events import BranchChange, Push
from pipeline_contracts.deploy_states import ACTIVE_STATUSES, DeploymentStatus
from pipeline_contracts.errors import DeployRunning


async def follow_push(
    session: AsyncSession, target: Target, push: Push, actor: Actor, now: datetime
) -> Outcome:
    """Queue what the push deploys, or let it wait. All of its branches, or where one is refused none.

    Raises `RepositoryNotReady`.
    """
    # Of a branch that is told of several times, the last counts.
    changes = {change.branch: change for change in push.changes}.values()
    outcomes = [await _drop(session, target, one.branch) for one in changes if one.after is None]
    left = [change for change in changes if change.after is not None]
    if left:
        triggers = await find_triggers(session, target.project)
        # Each push locks its environments in the same order: two pushes with several environments could deadlock.
        left.sort(key=lambda change: triggers.push.get(change.branch, ""))
        outcomes += [await _follow(session, target, triggers, push, one, actor, now) for one in left]
    return sum_up(outcomes)


async def _drop(session: AsyncSession, target: Target, branch: str) -> Outcome:
    """Forget what waits of a branch that was deleted, whatever state the project is in."""
    await drop_waiting_of_branch(session, target.repository.id, branch)
    return ignored(f"The branch {branch} was deleted.")


async def _follow(
    session: AsyncSession,
    target: Target,
    triggers: Triggers,
    push: Push,
    change: BranchChange,
    actor: Actor,
    now: datetime,
) -> Outcome:
    branch = change.branch
    slug = triggers.push.get(branch)
    if slug is None:
        return ignored(f"No trigger of the workflow follows the branch {branch}.")
    place = await find_place(session, target.project, slug, to_deploy=True)
    if is_skipped(triggers, change.message):
        return Outcome("skipped", reason=f"The head commit of {branch} has {triggers.skip}.")
    if await is_held(session, place.environment):
        return ignored(
            f"{slug} was rolled back: deploy by hand, or run `pharos environment resume {target.project.slug}/{slug}`."
        )
    request = DeploymentRequest(
        "push",
        repository_id=target.repository.id,
        ref=branch,
        note=None if push.sender is None else f"pushed by {push.sender}",
        pushed_revision=change.after,
        pushed_from=change.before,
    )
    under_way = await _find_under_way(session, place.environment, request)
    if under_way is not None:
        return Outcome("queued", under_way.id, reason="A deployment brings this commit.", is_accepted=True)
    try:
        deployment = await queue_or_refuse(session, place, request, actor, now)
    except DeployRunning:
        await let_wait(session, place, request, branch, actor, now)
        return Outcome("waiting", reason=f"{slug} is being deployed to.", is_accepted=True)
    return Outcome("queued", deployment.id, is_accepted=True)


async def _find_under_way(
    session: AsyncSession, environment: Environment, request: DeploymentRequest
) -> Deployment | None:
    """The active deployment, where it is of the same push and certain to build its commit: a host tells of it twice
    where both a repository and the host's application have a webhook. What waits goes on waiting, it may be newer."""
    not_looked_up = Deployment.revision.is_(None) & (Deployment.status == DeploymentStatus.QUEUED)
    query = select(Deployment).where(
        Deployment.environment_id == environment.id,
        Deployment.status.in_(ACTIVE_STATUSES),
        Deployment.trigger == request.trigger,
        Deployment.repository_id == request.repository_id,
        Deployment.ref == request.ref,
        Deployment.pushed_revision == request.pushed_revision,
        not_looked_up | (Deployment.revision == request.pushed_revision),
    )
    return (await session.execute(query)).scalar_one_or_none()


def is_skipped(triggers: Triggers, message: str | None) -> bool:
    """Whether a head commit with this message deploys nothing."""
    return triggers.skip is not None and message is not None and triggers.skip in message


async def queue_or_refuse(
    session: AsyncSession, place: Place, request: DeploymentRequest, actor: Actor, now: datetime
) -> Deployment:
    """A deployment, queued. Where it waits for a second person, older ones of the same branch that do so are called
    off: of a branch's pushes only the newest is of interest.

    Raises `RepositoryNotReady` where the environment takes no deploys now, and `DeployRunning`.
    """
    # What waits of the branch is older; where this one is refused, that is taken back. Before the deployment, as by
    # whoever queues what waits: on Postgres the two would wait crosswise.
    await drop_waiting(session, place.environment, request.ref)
    with taking_deploys(place.environment):
        deployment = await queue_deployment(session, place, request, actor, now)
    await supersede(session, deployment, now)
    return deployment

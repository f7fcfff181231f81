"""Finds, rolls back and promotes deployments, within the caller's account and role."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, cast

from sqlalchemy import bindparam, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import Right
from control_domain.audit import Actor
from control_domain.database.public_ids import matches_id
from control_domain.deployments.queue_deployment import DeploymentRequest, queue_deployment
from control_domain.projects.find import IS_ROLE_OF_PERSON, DeployTarget, require_right
from control_domain.tables.deployments import Deployment, DeploymentLine, Release
from control_domain.tables.projects import Environment, Project, ProjectRole
from pipeline_contracts.deploy_states import DeploymentStatus
from pipeline_contracts.errors import FieldError, NotFound, NotPromotable, NotRetained

LOG_LINES = 1000


class DeploymentWithEnvironment(NamedTuple):
    """A deployment, and the public ID of its environment."""

    deployment: Deployment
    environment_id: str | None


class LogLine(NamedTuple):
    """The columns of a `DeploymentLine` that are shown."""

    id: int
    at: str
    stream: str
    text: str


_LINES = DeploymentLine.__table__.c
# Columns of the table itself: the ORM would take longer for a thousand rows than the database.
LOG_LINE_COLUMNS = (_LINES.id, _LINES.at, _LINES.stream, _LINES.text)


# Both are built once: building a query takes as long as running it.
_DEPLOYMENT = (
    select(Deployment, Environment, Project, ProjectRole.role)
    .join(Project, Project.id == Deployment.project_id)
    .outerjoin(Environment, Environment.id == Deployment.environment_id)
    .outerjoin(ProjectRole, IS_ROLE_OF_PERSON)
    .where(Deployment.account_id == bindparam("account"), Deployment.id == bindparam("build"))
)
_LAST_LINES = (
    select(*LOG_LINE_COLUMNS)
    .where(_LINES.deployment_id == bindparam("deployment"))
    .order_by(_LINES.id.desc())
    .limit(LOG_LINES + 1)
)


async def find_deployment(
    session: AsyncSession, caller: Caller, build: int | None, right: Right
) -> tuple[DeploymentWithEnvironment, DeployTarget | None]:
    """Return the deployment and its environment, which is None if it was removed. Raises `NotFound`, also for a
    deployment of another account, and `DeployNotAllowed`."""
    values = {"account": caller.account.id, "person": caller.person.id, "build": build}
    row = (await session.execute(_DEPLOYMENT, values)).one_or_none()
    if row is None:
        raise NotFound("The account has no such deployment.")
    deployment, environment, project, role = row
    require_right(caller, role, right)
    if environment is None:
        return DeploymentWithEnvironment(deployment, None), None
    return DeploymentWithEnvironment(deployment, environment.public_id), DeployTarget(environment, project)


async def tail_log(session: AsyncSession, deployment_id: int) -> tuple[Sequence[LogLine], bool]:
    """Return the last 1,000 lines in order, and whether there are earlier ones."""
    rows = await session.execute(_LAST_LINES, {"deployment": deployment_id})
    lines = cast(Sequence[LogLine], rows.all())
    return lines[LOG_LINES - 1 :: -1] if len(lines) > LOG_LINES else lines[::-1], len(lines) > LOG_LINES


async def roll_back(
    session: AsyncSession, caller: Caller, build: int | None, actor: Actor, now: datetime
) -> DeploymentWithEnvironment:
    """Call `queue_rollback` for a caller who may deploy to the environment."""
    found, deploy_target = await find_deployment(session, caller, build, Right.DEPLOY)
    queued = await queue_rollback(session, found.deployment, deploy_target, actor, now)
    return DeploymentWithEnvironment(queued, found.environment_id)


async def queue_rollback(
    session: AsyncSession,
    deployment: Deployment,
    deploy_target: DeployTarget | None,
    actor: Actor,
    now: datetime,
) -> Deployment:
    """Queue the release of this deployment again, in its environment and without a build. `deploy_target` is None if
    the environment was removed. Raises `NotRetained`, and the errors of `queue_deployment`."""
    release = await find_retained_release(session, deployment)
    if release is None or deploy_target is None:
        message = (
            "has no retained release: an environment retains its five newest releases, "
            "or the number in `retain` of the workflow"
        )
        raise NotRetained(f"Deployment {deployment.id} {message}.", errors=[FieldError("build", message)])
    request = DeploymentRequest(
        "rollback",
        repository_id=deployment.repository_id,
        revision=release.revision,
        rolled_back_to_id=release.deployment_id,
        commit_subject=deployment.commit_subject,
        commit_author=deployment.commit_author,
    )
    return await queue_deployment(session, deploy_target, request, actor, now)


async def promote(
    session: AsyncSession,
    caller: Caller,
    build: int | None,
    target: str,
    note: str | None,
    actor: Actor,
    now: datetime,
) -> DeploymentWithEnvironment:
    """Call `queue_promotion` for a caller who may deploy to the environment of the deployment."""
    found, deploy_target = await find_deployment(session, caller, build, Right.DEPLOY)
    queued, to = await queue_promotion(session, found.deployment, deploy_target, target, note, actor, now)
    return DeploymentWithEnvironment(queued, to.environment.public_id)


async def queue_promotion(
    session: AsyncSession,
    deployment: Deployment,
    deploy_target: DeployTarget | None,
    target: str,
    note: str | None,
    actor: Actor,
    now: datetime,
) -> tuple[Deployment, DeployTarget]:
    """Queue the release of this deployment in a later environment of its project. `target` is the ID of the later
    environment; `deploy_target` is the deployment's own environment, None if it was removed. Raises `NotPromotable`,
    and the errors of `queue_deployment`."""
    release = await find_retained_release(session, deployment)
    if release is None or deploy_target is None:
        message = "has not succeeded, or its release is not retained any more"
        raise NotPromotable(f"Deployment {deployment.id} {message}.", errors=[FieldError("build", message)])
    to = await _find_later_environment(session, deploy_target, target)
    request = DeploymentRequest(
        "promotion",
        repository_id=deployment.repository_id,
        revision=release.revision,
        promoted_from_id=deployment.id,
        note=note,
        commit_subject=deployment.commit_subject,
        commit_author=deployment.commit_author,
    )
    return await queue_deployment(session, to, request, actor, now), to


async def _find_later_environment(
    session: AsyncSession, deploy_target: DeployTarget, target: str
) -> DeployTarget:
    query = select(Environment).where(
        Environment.project_id == deploy_target.project.id,
        matches_id(Environment.id, Environment.public_id, target),
    )
    to = (await session.execute(query)).scalar_one_or_none()
    if to is None:
        message = "is not an environment of the deployment's project"
    elif to.position <= deploy_target.environment.position:
        message = f"is not later than {deploy_target.environment.slug}, the environment of the deployment"
    else:
        return DeployTarget(to, deploy_target.project)
    raise NotPromotable(
        "A deployment is promoted to a later environment of its project.",
        errors=[FieldError("target_environment_id", message)],
    )


async def find_retained_release(session: AsyncSession, deployment: Deployment) -> Release | None:
    """Return the release that the deployment built or, as a rollback, made live again; None if it is not retained."""
    if deployment.status != DeploymentStatus.SUCCEEDED:
        return None
    source_id = deployment.rolled_back_to_id or deployment.id
    query = select(Release).where(Release.deployment_id == source_id, Release.removed_at.is_(None))
    return (await session.execute(query)).scalar_one_or_none()

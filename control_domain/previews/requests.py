"""Opens and closes previews for people."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import Right
from control_domain.audit import Actor
from control_domain.database.public_ids import matches_id
from control_domain.environments.gates import find_lowered, lock_variables_source, read_gate
from control_domain.environments.operations import lock_deployer_lease, lock_environment_row
from control_domain.previews.operations import (
    PREVIEW,
    close_preview,
    copy_variables,
    deploy_preview,
    open_preview,
)
from control_domain.projects.find import DeployTarget, find_project
from control_domain.removals.remove_environment import RemovedEnvironment
from control_domain.sealing import CannotOpen, SealingKeys
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment, Project
from pipeline_contracts.deploy_states import ForbiddenTransition
from pipeline_contracts.errors import Conflict, Unavailable, invalid_field
from pipeline_contracts.git_refs import is_ref


async def open_requested_preview(
    session: AsyncSession,
    keys: SealingKeys,
    project: Project,
    branch: str,
    variables_from: str | None,
    actor: Actor,
    now: datetime,
) -> tuple[DeployTarget, Deployment]:
    """Create the preview of the branch, unless it exists, and queue a deployment of it.

    `variables_from`: the number or ID of an environment whose variables, except protected ones, are copied. Raises
    `InvalidInput`, also for a preview as the source, `Conflict` if a second person has to approve variables of the
    preview, `Unavailable` if the variables cannot be opened, and the errors of `open_preview` and `queue_deployment`.
    """
    if not is_ref(branch):
        raise invalid_field("branch", "must be the name of a branch that Git allows, such as main")
    source = None
    if variables_from is not None:
        source = await _find_source(session, project, variables_from)
        await lock_variables_source(session, source.environment)
    target = await open_preview(session, project, branch, actor, now)
    if source is not None:
        try:
            await copy_variables(session, keys, source, target, actor, now)
        except CannotOpen as error:
            raise Unavailable(
                f"The variables of {source.environment.slug} cannot be opened here now.", retry_after=60
            ) from error
    deployment = await deploy_preview(session, target, actor, now)
    await session.flush()
    return target, deployment


async def _find_source(session: AsyncSession, project: Project, number_or_id: str) -> DeployTarget:
    query = select(Environment).where(
        Environment.project_id == project.id,
        matches_id(Environment.id, Environment.public_id, number_or_id),
    )
    found = (await session.execute(query)).scalar_one_or_none()
    if found is None:
        raise invalid_field("variables_from", "must be the ID of an environment of the project")
    if found.type == PREVIEW:
        raise invalid_field("variables_from", "must be the ID of an environment that is no preview")
    return DeployTarget(found, project)


async def close_requested_preview(
    session: AsyncSession, caller: Caller, target: DeployTarget, actor: Actor, now: datetime
) -> RemovedEnvironment:
    """Cancel a queued or building deployment of the preview, and remove the preview.

    Where its deploys or variables need approvals, the caller must be allowed to decide: raises `DeployNotAllowed`. A
    second person is not needed, unlike for other environments: an approval keeps the variables of a preview from code
    that nobody has approved, and they are removed with it. Raises `Conflict` while a deployment is past its build.
    """
    # In the order of deployers. The gate must not change after it was read.
    await lock_deployer_lease(session, target.environment)
    await lock_environment_row(session, target.environment)
    lowered = find_lowered(read_gate(target.environment), None)
    if lowered:
        await find_project(session, caller, target.project.public_id, Right.DECIDE)
    try:
        return await close_preview(
            session, target, actor, now, {"lowered": list(lowered)} if lowered else None
        )
    except ForbiddenTransition as error:
        raise Conflict(
            f"Its deployment is {error.current.replace('_', ' ')} meanwhile: try again."
        ) from error

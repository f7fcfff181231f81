"""A second person agrees to a deployment that waits, or does not; somebody calls one off."""

from datetime import datetime

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_api.accounts.tables import Person
from control_api.audit.operations import Actor, record
from control_api.deployments.moves import add_line, move_deployment
from control_api.deployments.queue_deployment import deploy_running
from control_api.deployments.tables import Deployment
from control_api.environments.check_open import check_open
from control_api.projects.members import check_second
from control_api.projects.tables import Environment
from control_api.refusals import Refused
from control_api.variables.operations import present_variables
from pipeline_contracts.deploy_states import DeploymentStatus


async def approve_deployment(
    session: AsyncSession,
    deployment: Deployment,
    environment: Environment,
    person: Person,
    revision: str | None,
    actor: Actor,
    now: datetime,
) -> None:
    """Queue what waits, bound to its commit and to the variables that the environment has now: the deployer asks again
    where one of them has become another.

    `revision` names the commit that the person has looked at; needed where it is not known yet, and refused where it
    is another. Raises `Refused`, `ForbiddenMove`, `DeployRunning`, and what `check_open` raises.
    """
    check_second(deployment.asked_by_id, person)
    if deployment.revision is None and revision is None:
        raise Refused(
            f"The commit of {deployment.ref or 'the branch'} is not looked up yet: name the one that you have looked "
            "at with --revision."
        )
    if deployment.revision is not None and revision not in (None, deployment.revision):
        raise Refused(f"Deployment {deployment.id} is of the commit {deployment.revision}, not {revision}.")
    await check_open(session, environment, now)
    variables = await present_variables(session, environment)
    approved = {
        "revision": deployment.revision or revision,
        "approved_revision": deployment.revision or revision,
        "approved_variables_id": None if variables is None else variables.id,
        "decided_by_id": person.id,
        "decided_at": now,
    }
    try:
        # A savepoint: on Postgres a statement that fails would end the transaction.
        async with session.begin_nested():
            await move_deployment(session, deployment, DeploymentStatus.QUEUED, now, **approved)
    except IntegrityError:
        raise await deploy_running(session, environment.id) from None
    add_line(session, deployment.id, f"Approved by {person.name}: {deployment.revision}.", now)
    details = {"revision": deployment.revision}
    subject = f"deployment {deployment.id}"
    record(session, actor, deployment.account_id, "deployment.approve", subject, now, details)


async def reject_deployment(
    session: AsyncSession, deployment: Deployment, person: Person, reason: str, actor: Actor, now: datetime
) -> None:
    """End what waits. Raises `Refused` and `ForbiddenMove`."""
    check_second(deployment.asked_by_id, person)
    decided = {"decided_by_id": person.id, "decided_at": now}
    await move_deployment(session, deployment, DeploymentStatus.REJECTED, now, **decided)
    add_line(session, deployment.id, f"Rejected by {person.name}: {reason}.", now)
    subject, details = f"deployment {deployment.id}", {"reason": reason}
    record(session, actor, deployment.account_id, "deployment.reject", subject, now, details)


async def cancel_deployment(
    session: AsyncSession, deployment: Deployment, actor: Actor, now: datetime
) -> None:
    """Call off what is not switched to yet. Raises `ForbiddenMove` after that."""
    await move_deployment(session, deployment, DeploymentStatus.CANCELED, now)
    add_line(session, deployment.id, "Canceled.", now)
    subject = f"deployment {deployment.id}"
    record(session, actor, deployment.account_id, "deployment.cancel", subject, now)

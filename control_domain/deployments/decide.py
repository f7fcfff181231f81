"""A second person agrees to a deployment that waits, or does not; somebody calls one off."""

from datetime import datetime

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record
from control_domain.deployments.check_authors import check_authors
from control_domain.deployments.frozen import check_shown, freeze, inputs_of
from control_domain.deployments.moves import add_line, move_deployment
from control_domain.deployments.queue_deployment import deploy_running
from control_domain.environments.check_open import check_open
from control_domain.projects.members import check_second
from control_domain.refusals import Refused
from control_domain.repositories.operations import is_disconnected
from control_domain.tables.accounts import Person
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment
from pipeline_contracts.deploy_states import DeploymentStatus


async def approve_deployment(
    session: AsyncSession,
    deployment: Deployment,
    environment: Environment,
    person: Person,
    revision: str | None,
    actor: Actor,
    now: datetime,
    shown: str | None = None,
) -> None:
    """Queue a waiting deployment, bound to its commit, variables and workflow. If one of these changes before the
    start, the deployer waits for another approval.

    `revision`: the commit that the approver reviewed; required while Pharos does not know the commit, and refused if it
    differs. `shown`: the digest, or its beginning, of the inputs that the approver reviewed; without a digest, the
    inputs must be unchanged since the deployment began to wait. The approver must be neither the requester nor the
    author of a change since. Raises `Refused`, `ForbiddenMove`, `DeployRunning`, and the errors of `check_open`.
    """
    check_second(deployment.asked_by_id, person)
    if deployment.revision is None and revision is None:
        raise Refused(_unknown_commit(deployment))
    if deployment.revision is not None and revision not in (None, deployment.revision):
        raise Refused(f"Deployment {deployment.id} is of the commit {deployment.revision}, not {revision}.")
    await check_open(session, environment, now)
    inputs = await inputs_of(session, deployment, environment, deployment.revision or revision)
    if inputs.brings_id is None and await is_disconnected(session, deployment.repository_id):
        raise Refused(
            f"The repository of deployment {deployment.id} was disconnected, and nothing is checked out of it any "
            f"more: cancel it with `pharos cancel {deployment.id}`, and deploy from the connected one."
        )
    check_shown(deployment, inputs, shown)
    await check_authors(session, deployment, inputs, person)
    approved = {
        **freeze(inputs, now),
        "revision": inputs.revision,
        "approved_revision": inputs.revision,
        "approved_variables_id": inputs.variables_id,
        "approved_digest": inputs.digest(),
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
    details = {"revision": deployment.revision, "digest": inputs.digest()}
    subject = f"deployment {deployment.id}"
    record(session, actor, deployment.account_id, "deployment.approve", subject, now, details)


def _unknown_commit(deployment: Deployment) -> str:
    called = f"The commit of {deployment.ref or 'the branch'}"
    named = "name the whole commit that you have looked at with --revision."
    if deployment.commit_fault is not None:
        return f"{called} could not be looked up: {deployment.commit_fault.rstrip('.')}. Fix that and wait, or {named}"
    return f"{called} is not known yet: a deployer is looking it up. Try again in a moment, or {named}"


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

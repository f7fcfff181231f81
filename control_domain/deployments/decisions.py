"""Approves, rejects and cancels deployments."""

from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain import next_steps
from control_domain.audit import Actor, record_audit_entry
from control_domain.deployments.inputs import (
    DeploymentInputs,
    check_reviewed_inputs,
    input_columns,
    read_deployment_inputs,
)
from control_domain.deployments.queue_deployment import deploy_running_error
from control_domain.deployments.transitions import add_log_line, transition_deployment
from control_domain.environments.gates import check_accepts_deployments
from control_domain.projects.resolve import check_second_person
from control_domain.refusals import Refused
from control_domain.repositories.operations import is_disconnected
from control_domain.tables.accounts import Person
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment
from control_domain.tables.variables import VariableSet
from control_domain.tables.workflows import Workflow
from pipeline_contracts.deploy_states import DeploymentStatus


async def approve_deployment(
    session: AsyncSession,
    deployment: Deployment,
    environment: Environment,
    person: Person,
    revision: str | None,
    actor: Actor,
    now: datetime,
    reviewed_digest: str | None = None,
) -> None:
    """Queue a waiting deployment, bound to its commit, variables and workflow. If one of these changes before the
    start, the deployer waits for another approval.

    `revision`: the commit that the approver reviewed; required while Pharos does not know the commit, and refused
    if it differs. `reviewed_digest`: the digest, or its beginning, of the inputs that the approver reviewed;
    without a digest, the inputs must be unchanged since the deployment began to wait. The approver must be neither
    the requester nor the author of a change since. Raises `Refused`, `ForbiddenTransition`, `DeployRunning`, and
    the errors of `check_accepts_deployments`.
    """
    check_second_person(deployment.asked_by_id, person)
    if deployment.revision is None and revision is None:
        raise Refused(_explain_unknown_commit(deployment))
    if deployment.revision is not None and revision not in (None, deployment.revision):
        raise Refused(f"Deployment {deployment.id} is of the commit {deployment.revision}, not {revision}.")
    await check_accepts_deployments(session, environment, now)
    inputs = await read_deployment_inputs(session, deployment, environment, deployment.revision or revision)
    if inputs.release_source_id is None and await is_disconnected(session, deployment.repository_id):
        raise Refused(
            f"The repository of deployment {deployment.id} was disconnected, and nothing is checked out of it any "
            f"more: {next_steps.cancel_and_deploy_again(deployment.id)}"
        )
    check_reviewed_inputs(deployment, inputs, reviewed_digest)
    await check_input_authors(session, deployment, inputs, person)
    approved = {
        **input_columns(inputs, now),
        "revision": inputs.revision,
        "approved_revision": inputs.revision,
        "approved_variables_id": inputs.variables_id,
        "approved_digest": inputs.digest(),
        "decided_by_id": person.id,
        "decided_at": now,
    }
    try:
        # Savepoint: on Postgres a failed statement would end the transaction.
        async with session.begin_nested():
            await transition_deployment(session, deployment, DeploymentStatus.QUEUED, now, **approved)
    except IntegrityError:
        raise await deploy_running_error(session, environment.id) from None
    add_log_line(session, deployment.id, f"Approved by {person.name}: {deployment.revision}.", now)
    details = {"revision": deployment.revision, "digest": inputs.digest()}
    subject = f"deployment {deployment.id}"
    record_audit_entry(session, actor, deployment.account_id, "deployment.approve", subject, now, details)


def _explain_unknown_commit(deployment: Deployment) -> str:
    commit = f"The commit of {deployment.ref or 'the branch'}"
    if deployment.commit_fault is not None:
        reason = f"could not be looked up: {deployment.commit_fault.rstrip('.')}. Fix that and wait"
    else:
        reason = "is not known yet: a deployer is looking it up. Try again in a moment"
    return f"{commit} {reason}, or {next_steps.NAME_REVISION}"


async def check_input_authors(
    session: AsyncSession, deployment: Deployment, inputs: DeploymentInputs, person: Person
) -> None:
    """Raise `Refused` if the approver, or an unknown author, set the variables or the workflow that changed since the
    deployment was requested or last approved."""
    current = {
        "variables": await _find_author(session, VariableSet, inputs.variables_id),
        "workflow": await _find_author(session, Workflow, inputs.workflow_id),
    }
    recorded = {"variables": deployment.frozen_variables_id, "workflow": deployment.frozen_workflow_id}
    for name, row in current.items():
        if row is None:
            continue
        number, author, set_at = row
        # Deployments of earlier versions have no recorded inputs: compare times instead.
        # A preview and its first deployment have the same time.
        is_same = (
            set_at <= deployment.created_at if deployment.frozen_at is None else number == recorded[name]
        )
        if is_same:
            continue
        changed = f"the {name} since deployment {deployment.id} was asked for"
        if author is None:
            raise Refused(
                f"It is not known who changed {changed}, so nobody can be the second person. "
                f"{next_steps.CANCEL_AND_NAME_AUTHOR}"
            )
        if author == person.id:
            raise Refused(f"{person.name} has changed {changed}: somebody else has to approve it.")


async def _find_author(
    session: AsyncSession, table: type[Any], number: int | None
) -> tuple[int, int | None, datetime] | None:
    """Return the row's number, author and time; None if there is no row."""
    if number is None:
        return None
    query = select(table.id, table.set_by_id, table.created_at).where(table.id == number)
    row = (await session.execute(query)).one_or_none()
    return None if row is None else (row[0], row[1], row[2])


async def reject_deployment(
    session: AsyncSession, deployment: Deployment, person: Person, reason: str, actor: Actor, now: datetime
) -> None:
    """Reject a deployment that waits for approval. Raises `Refused` and `ForbiddenTransition`."""
    check_second_person(deployment.asked_by_id, person)
    decided = {"decided_by_id": person.id, "decided_at": now}
    await transition_deployment(session, deployment, DeploymentStatus.REJECTED, now, **decided)
    add_log_line(session, deployment.id, f"Rejected by {person.name}: {reason}.", now)
    subject, details = f"deployment {deployment.id}", {"reason": reason}
    record_audit_entry(session, actor, deployment.account_id, "deployment.reject", subject, now, details)


async def cancel_deployment(
    session: AsyncSession, deployment: Deployment, actor: Actor, now: datetime
) -> None:
    """Cancel a deployment. Raises `ForbiddenTransition` once traffic is being switched to it."""
    await transition_deployment(session, deployment, DeploymentStatus.CANCELED, now)
    add_log_line(session, deployment.id, "Canceled.", now)
    subject = f"deployment {deployment.id}"
    record_audit_entry(session, actor, deployment.account_id, "deployment.cancel", subject, now)

"""Approves, rejects and cancels deployments."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.second_person import (
    check_second_person,
    describe_doubt,
    find_possible_actors,
)
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
from control_domain.repositories.operations import is_disconnected
from control_domain.tables.accounts import Person
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment
from control_domain.tables.variables import VariableSet
from control_domain.tables.workflows import Workflow
from pipeline_contracts.deploy_states import DeploymentStatus, check_transition
from pipeline_contracts.errors import CommitUnknown, Conflict, SecondPersonRequired


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
    the requester nor the author of a change since. Raises `CommitUnknown`, `InputsChanged`, `SecondPersonRequired`,
    `Conflict`, `ForbiddenTransition`, `DeployRunning`, and the errors of `check_accepts_deployments`.
    """
    # Check this first: for a finished deployment, the other errors would not help.
    check_transition(DeploymentStatus(deployment.status), DeploymentStatus.QUEUED)
    await check_second_person(session, deployment.asked_by_id, person, now)
    if deployment.revision is None and revision is None:
        raise CommitUnknown(_explain_unknown_commit(deployment))
    if deployment.revision is not None and revision not in (None, deployment.revision):
        raise Conflict(f"Deployment {deployment.id} is of the commit {deployment.revision}, not {revision}.")
    await check_accepts_deployments(session, environment, now)
    inputs = await read_deployment_inputs(session, deployment, environment, deployment.revision or revision)
    if inputs.release_source_id is None and await is_disconnected(session, deployment.repository_id):
        raise Conflict(
            f"The repository of deployment {deployment.id} was disconnected, and nothing is checked out of it any "
            "more: cancel the deployment, and deploy from the connected repository."
        )
    check_reviewed_inputs(deployment, inputs, reviewed_digest)
    await check_input_authors(session, deployment, inputs, person, now)
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
    return f"{commit} {reason}, or name the whole commit that you have reviewed."


async def check_input_authors(
    session: AsyncSession,
    deployment: Deployment,
    inputs: DeploymentInputs,
    person: Person,
    now: datetime,
) -> None:
    """Raise `SecondPersonRequired` if the approver, or somebody unknown, changed the variables or the workflow.

    Changes count since the deployment was requested or last approved.
    """
    authors = {
        "variables": await _find_authors_of_variables(session, deployment, inputs),
        "workflow": await _find_author_of_workflow(session, deployment, inputs),
    }
    actors = await find_possible_actors(session, {person.id}.union(*authors.values()), now)
    for name, changed_by in authors.items():
        changed = f"the {name} since deployment {deployment.id} was requested"
        if None in changed_by:
            raise SecondPersonRequired(
                f"Pharos does not know who changed {changed}, so nobody can be the second person. "
                "Cancel the deployment "
                "and request a new one."
            )
        if person.id in changed_by:
            raise SecondPersonRequired(
                f"{person.name} has changed {changed}: another person must approve it."
            )
        if not all(actors.are_two(author, person.id) for author in changed_by):
            raise SecondPersonRequired(describe_doubt(person))


async def _find_authors_of_variables(
    session: AsyncSession, deployment: Deployment, inputs: DeploymentInputs
) -> set[int | None]:
    """Return the authors of the versions since then, back to the last version that replaced all variables."""
    if inputs.variables_id is None:
        return set()
    query = select(VariableSet.set_by_id, VariableSet.is_update).where(
        VariableSet.environment_id == deployment.environment_id,
        VariableSet.id <= inputs.variables_id,
        _is_since(deployment, VariableSet.id, VariableSet.created_at, deployment.frozen_variables_id),
    )
    authors: set[int | None] = set()
    for author, is_update in await session.execute(query.order_by(VariableSet.version.desc())):
        authors.add(author)
        if not is_update:
            break
    return authors


async def _find_author_of_workflow(
    session: AsyncSession, deployment: Deployment, inputs: DeploymentInputs
) -> set[int | None]:
    """Return the author of the workflow, unless it is older. Each version is a whole new document."""
    if inputs.workflow_id is None:
        return set()
    query = select(Workflow.set_by_id).where(
        Workflow.project_id == deployment.project_id,
        Workflow.id == inputs.workflow_id,
        _is_since(deployment, Workflow.id, Workflow.created_at, deployment.frozen_workflow_id),
    )
    return set((await session.execute(query)).scalars())


def _is_since(
    deployment: Deployment, row_id: Any, created_at: Any, recorded_id: int | None
) -> ColumnElement[bool]:
    """Return the condition that a row is newer than the inputs that were recorded."""
    # Deployments of earlier versions have no recorded inputs: compare times instead.
    # A preview and its first deployment have the same time.
    newer: ColumnElement[bool] = (
        created_at > deployment.created_at if deployment.frozen_at is None else row_id > (recorded_id or 0)
    )
    return newer


async def reject_deployment(
    session: AsyncSession, deployment: Deployment, person: Person, reason: str, actor: Actor, now: datetime
) -> None:
    """Reject a deployment that waits for approval. Raises `SecondPersonRequired` and `ForbiddenTransition`."""
    check_transition(DeploymentStatus(deployment.status), DeploymentStatus.REJECTED)
    await check_second_person(session, deployment.asked_by_id, person, now)
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

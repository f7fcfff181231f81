"""Cancel or retry one step of a configuration run."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.configurations.lowered_gates import (
    check_gates_approved,
    encode_approved_gates,
    find_lowered_gates,
)
from control_domain.configurations.project_state import read_project_state
from control_domain.configurations.runs import (
    STEP_TRANSITIONS,
    find_run,
    find_step,
    list_steps,
    lock_run,
    move_step,
    update_run_status,
)
from control_domain.configurations.sealed_actions import open_actions
from control_domain.projects.operations import lock_project_row
from control_domain.sealing import Sealed, SealingKeys
from control_domain.tables.configuration import ConfigurationRun, Review, RunStep
from control_domain.tables.projects import Project
from pipeline_contracts.deploy_states import StepStatus
from pipeline_contracts.errors import ConfigurationStepConflict

_SECOND_PERSON = (
    "a maintainer of the project other than the author of the review has to retry it. Or make a new review."
)
_DONE = {"cancel": "canceled", "retry": "retried"}


async def cancel_or_retry_step(
    session: AsyncSession,
    project: Project,
    run_id: int | None,
    step_id: int | None,
    transition: str,
    actor: Actor,
    now: datetime,
    keys: SealingKeys | None = None,
    approved_by_id: int | None = None,
) -> RunStep:
    """Cancel a pending step, or retry a failed or canceled one. `transition`: a key of `STEP_TRANSITIONS`.

    A retry needs `keys`; if it lowers a current gate, it also needs `approved_by_id`: a person who may decide in the
    project and is not the author of the review. Raises `NotFound`, `ConfigurationStepConflict` if the step's status
    does not allow it or a later run has started, `DeployNotAllowed` and `CannotOpen`.
    """
    await lock_project_row(session, project)
    run = await find_run(session, project, run_id)
    await lock_run(session, run.id)
    step = await find_step(session, run, step_id)
    allowed, to = STEP_TRANSITIONS[transition]
    lowered: Sequence[str] = []
    if step.status not in allowed:
        expected = " or ".join(sorted(status.value for status in allowed))
        raise ConfigurationStepConflict(
            f"Operation {step.id} is {step.status}: only an operation that is {expected} can be {_DONE[transition]}."
        )
    if to is StepStatus.PENDING:
        await _check_newest(session, run)
        assert keys is not None
        lowered = await _check_gates(session, keys, project, run, step, approved_by_id)
    await move_step(session, step, to, now, error=None)
    await session.refresh(run)
    await update_run_status(session, run, now)
    subject = f"project {project.public_id}"
    details: dict[str, Any] = {"application": run.id, "operation": step.id}
    if lowered:
        details |= {"lowered": list(lowered), "approved_by_id": approved_by_id}
    record_audit_entry(
        session, actor, project.account_id, f"configuration.{transition}", subject, now, details
    )
    await session.flush()
    return step


async def _check_gates(
    session: AsyncSession,
    keys: SealingKeys,
    project: Project,
    run: ConfigurationRun,
    step: RunStep,
    approved_by_id: int | None,
) -> Sequence[str]:
    """Check that the gates which the step and the pending steps lower are approved; store the approval and return
    the gates. The current gates count: they may have been raised since the review was applied."""
    steps = [
        other
        for other in await list_steps(session, run.id)
        if other.id == step.id or other.status == StepStatus.PENDING
    ]
    actions_by_step = {
        other: open_actions(keys, Sealed(other.key_id, other.sealed), project.public_id)
        for other in steps
        if other.sealed is not None and other.key_id is not None
    }
    actions = [action for step_actions in actions_by_step.values() for action in step_actions]
    if all(action.kind != "environment" for action in actions):
        return []
    state = await read_project_state(session, keys, project)
    lowered = find_lowered_gates(actions, state)
    review = await session.get_one(Review, run.review_id)
    subject = f"Operation {step.id}, with the operations that follow it,"
    check_gates_approved(review, subject, lowered, approved_by_id, _SECOND_PERSON)
    for other, step_actions in actions_by_step.items():
        other.approved_gates = encode_approved_gates(step_actions, state)
    return lowered


async def _check_newest(session: AsyncSession, run: ConfigurationRun) -> None:
    query = select(func.max(ConfigurationRun.id)).where(ConfigurationRun.project_id == run.project_id)
    newest = (await session.execute(query)).scalar_one()
    if newest != run.id:
        raise ConfigurationStepConflict(
            f"Application {newest} started after this one and was planned without it: make a new review."
        )

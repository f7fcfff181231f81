"""Start a configuration run from a review."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.configurations.lowered_gates import (
    check_gates_approved,
    encode_approved_gates,
    find_lowered_gates,
)
from control_domain.configurations.pinged_heartbeats import find_created_by_pings, leave_out_unrelated
from control_domain.configurations.plan import Action
from control_domain.configurations.resources import ProjectState
from control_domain.configurations.reviews import find_review
from control_domain.configurations.runs import ConfigurationRunStatus, move_step
from control_domain.configurations.sealed_actions import open_actions, read_digest_translation, seal_actions
from control_domain.projects.operations import lock_project_row
from control_domain.sealing import Sealed, SealingKeys
from control_domain.tables.configuration import ConfigurationRun, Review, RunStep
from control_domain.tables.projects import Project
from pipeline_contracts.deploy_states import StepStatus
from pipeline_contracts.errors import (
    ConfigurationRunInProgress,
    ProjectChanged,
    ReviewApplied,
    ReviewExpired,
)
from pipeline_contracts.times import format_time

_SECOND_PERSON = "a maintainer of the project other than the author of the review has to apply it."


async def start_run(
    session: AsyncSession,
    keys: SealingKeys,
    project: Project,
    review_id: int | None,
    actor: Actor,
    now: datetime,
    approved_by_id: int | None = None,
) -> ConfigurationRun:
    """Apply the review: start its configuration run, and cancel the pending steps of earlier runs.

    `approved_by_id`: the person who approves the run and may decide in the project; needed if the run lowers a gate,
    and then not the author of the review.

    All checks run in the transaction that starts the run, with the project locked: of several concurrent calls, one
    succeeds. Raises `NotFound`, `ReviewExpired`, `ReviewApplied`, `ConfigurationRunInProgress`, `ProjectChanged`,
    `DeployNotAllowed` and `CannotOpen`.
    """
    await lock_project_row(session, project)
    review = await find_review(session, project, review_id)
    sealed = await _check_open(session, review, now)
    await _check_idle(session, project)
    translation = await read_digest_translation(session, keys, project, sealed.key_id)
    sealed_actions = open_actions(keys, sealed, project.public_id)
    await _check_unchanged(session, project, review, translation.old, sealed_actions)
    actions = translation.translate_actions(sealed_actions)
    lowered = find_lowered_gates(actions, translation.current)
    check_gates_approved(review, f"Review {review.id}", lowered, approved_by_id, _SECOND_PERSON)
    run = ConfigurationRun(
        project_id=project.id,
        review_id=review.id,
        status=ConfigurationRunStatus.SUCCEEDED.value,
        source=actor.source,
        person_id=actor.person_id,
        token_id=actor.token_id,
        request_id=actor.request_id,
        created_at=now,
    )
    session.add(run)
    await session.flush()
    await _cancel_earlier_steps(session, run, now)
    _add_steps(session, keys, project, run, actions, translation.current, now)
    review.applied_at, review.sealed, review.key_id = now, None, None
    subject = f"project {project.public_id}"
    details: dict[str, Any] = {"review": review.id, "application": run.id}
    if lowered:
        details |= {"lowered": list(lowered), "approved_by_id": approved_by_id}
    record_audit_entry(session, actor, project.account_id, "configuration.apply", subject, now, details)
    await session.flush()
    return run


async def _check_open(session: AsyncSession, review: Review, now: datetime) -> Sealed:
    """Return the review's sealed actions. Raises `ReviewApplied` and `ReviewExpired`."""
    if review.applied_at is not None:
        query = select(ConfigurationRun.id).where(ConfigurationRun.review_id == review.id)
        members = {"application_id": (await session.execute(query)).scalar_one()}
        raise ReviewApplied(
            f"It was applied at {format_time(review.applied_at)}: application {members['application_id']}.",
            members=members,
        )
    # Another control plane's clock may be ahead and have deleted the secrets already.
    if now >= review.expires_at or review.sealed is None or review.key_id is None:
        raise ReviewExpired(f"It was valid until {format_time(review.expires_at)}: make a new review.")
    return Sealed(review.key_id, review.sealed)


async def _check_unchanged(
    session: AsyncSession, project: Project, review: Review, state: ProjectState, actions: Sequence[Action]
) -> None:
    """Raise `ProjectChanged` unless the project is as it was when the review was made, apart from heartbeats that
    pings have created since and that the review does not concern."""
    if state.fingerprint() == review.fingerprint:
        return
    created = await find_created_by_pings(session, project, review.created_at)
    if leave_out_unrelated(state, created, actions).fingerprint() != review.fingerprint:
        raise ProjectChanged("The project has changed since the review was made: make a new review.")


async def _check_idle(session: AsyncSession, project: Project) -> None:
    query = select(ConfigurationRun.id).where(
        ConfigurationRun.project_id == project.id, ConfigurationRun.status == ConfigurationRunStatus.RUNNING
    )
    running_id = (await session.execute(query)).scalar_one_or_none()
    if running_id is not None:
        raise ConfigurationRunInProgress(
            f"Application {running_id} of the project is not finished: wait for it, then make a new review.",
            members={"application_id": running_id},
        )


async def _cancel_earlier_steps(session: AsyncSession, run: ConfigurationRun, now: datetime) -> None:
    """Cancel pending steps of earlier runs and delete their secrets, so that none can be retried: this run was planned
    without them."""
    earlier = select(ConfigurationRun.id).where(
        ConfigurationRun.project_id == run.project_id, ConfigurationRun.id < run.id
    )
    is_earlier = RunStep.run_id.in_(earlier)
    pending = select(RunStep).where(is_earlier, RunStep.status == StepStatus.PENDING)
    for step in (await session.execute(pending.order_by(RunStep.id))).scalars().all():
        reason = f"Canceled: application {run.id} came first."
        await move_step(session, step, StepStatus.CANCELED, now, error=reason)
    await session.execute(
        update(RunStep)
        .where(is_earlier, RunStep.sealed.is_not(None))
        .values(sealed=None, key_id=None)
        .execution_options(synchronize_session=False)
    )


def _add_steps(
    session: AsyncSession,
    keys: SealingKeys,
    project: Project,
    run: ConfigurationRun,
    actions: Sequence[Action],
    current: ProjectState,
    now: datetime,
) -> None:
    if not actions:
        run.finished_at = now
        return
    run.status = ConfigurationRunStatus.RUNNING.value
    for position, action in enumerate(actions):
        sealed = seal_actions(keys, [action], project.public_id)
        session.add(
            RunStep(
                run_id=run.id,
                position=position,
                action=json.dumps(action.to_json()),
                approved_gates=encode_approved_gates([action], current),
                key_id=sealed.key_id,
                sealed=sealed.data,
                status=StepStatus.PENDING.value,
                attempts=0,
            )
        )

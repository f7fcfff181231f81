"""A review is applied: its actions become operations, which a worker carries out."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record
from control_domain.configurations.application_status import ApplicationStatus
from control_domain.configurations.applications import move_operation
from control_domain.configurations.lowered_gates import check_agreed, find_lowered_gates, write_agreed
from control_domain.configurations.plan import Action
from control_domain.configurations.renew_actions import read_renewal
from control_domain.configurations.reviews import find_review
from control_domain.configurations.sealed_actions import open_actions, seal_actions
from control_domain.configurations.state import ProjectState
from control_domain.projects.hold import hold_project
from control_domain.sealing import Sealed, SealingKeys
from control_domain.tables.configuration import Application, Operation, Review
from control_domain.tables.projects import Project
from pipeline_contracts.deploy_states import OperationStatus
from pipeline_contracts.errors import (
    ApplicationRunning,
    ProjectChanged,
    ReviewApplied,
    ReviewExpired,
)
from pipeline_contracts.times import format_time


async def apply_review(
    session: AsyncSession,
    keys: SealingKeys,
    project: Project,
    review_id: int | None,
    actor: Actor,
    now: datetime,
    agreed_by_id: int | None = None,
) -> Application:
    """Start the review's application. What earlier applications have left undone is called off.

    `agreed_by_id`: the person who agrees to it, who may decide in the project; needed where a gate is lowered, and has
    to be another than the one who made the review.

    All that the review rests on is looked at in the transaction that starts it, while the project is held: of any
    number who apply it at once, one does. Raises `NotFound`, `ReviewExpired`, `ReviewApplied`, `ApplicationRunning`,
    `ProjectChanged`, `DeployNotAllowed` and `CannotOpen`.
    """
    await hold_project(session, project)
    review = await find_review(session, project, review_id)
    sealed = await _check_open(session, review, now)
    await _check_idle(session, project)
    renewal = await read_renewal(session, keys, project, sealed.key_id)
    if renewal.was.fingerprint() != review.fingerprint:
        raise ProjectChanged("The project is not as the review saw it any more: make a new one.")
    actions = renewal.renew(open_actions(keys, sealed, project.public_id))
    lowered = find_lowered_gates(actions, renewal.present)
    advice = (
        "somebody has to make the review, and somebody else, who may decide in the project, has to apply it (`pharos "
        "config apply` takes both with --by EMAIL and --approved-by EMAIL)."
    )
    check_agreed(review, f"Review {review.id}", lowered, agreed_by_id, advice)
    application = Application(
        project_id=project.id,
        review_id=review.id,
        status=ApplicationStatus.SUCCEEDED.value,
        source=actor.source,
        person_id=actor.person_id,
        token_id=actor.token_id,
        request_id=actor.request_id,
        created_at=now,
    )
    session.add(application)
    await session.flush()
    await _call_off_earlier(session, application, now)
    _add_operations(session, keys, project, application, actions, renewal.present, now)
    review.applied_at, review.sealed, review.key_id = now, None, None
    subject = f"project {project.public_id}"
    details: dict[str, Any] = {"review": review.id, "application": application.id}
    if lowered:
        details |= {"lowered": list(lowered), "approved_by_id": agreed_by_id}
    record(session, actor, project.account_id, "configuration.apply", subject, now, details)
    await session.flush()
    return application


async def _check_open(session: AsyncSession, review: Review, now: datetime) -> Sealed:
    """Gives what it is to do."""
    if review.applied_at is not None:
        query = select(Application.id).where(Application.review_id == review.id)
        members = {"application_id": (await session.execute(query)).scalar_one()}
        raise ReviewApplied(
            f"It was applied at {format_time(review.applied_at)}: application {members['application_id']}.",
            members=members,
        )
    # By another machine's clock it may have been given up a moment earlier.
    # By another control plane's clock it may be over already, and its secrets given up.
    if now >= review.expires_at or review.sealed is None or review.key_id is None:
        raise ReviewExpired(f"It was valid until {format_time(review.expires_at)}: make a new one.")
    return Sealed(review.key_id, review.sealed)


async def _check_idle(session: AsyncSession, project: Project) -> None:
    query = select(Application.id).where(
        Application.project_id == project.id, Application.status == ApplicationStatus.RUNNING
    )
    running = (await session.execute(query)).scalar_one_or_none()
    if running is not None:
        raise ApplicationRunning(
            f"Application {running} of the project is not finished: wait for it, then make a new review.",
            members={"application_id": running},
        )


async def _call_off_earlier(session: AsyncSession, application: Application, now: datetime) -> None:
    """Whatever the earlier ones wanted, this one was planned without it; none of their operations comes back."""
    earlier = select(Application.id).where(
        Application.project_id == application.project_id, Application.id < application.id
    )
    of_earlier = Operation.application_id.in_(earlier)
    waiting = select(Operation).where(of_earlier, Operation.status == OperationStatus.PENDING)
    for operation in (await session.execute(waiting.order_by(Operation.id))).scalars().all():
        called_off = f"Called off: application {application.id} came first."
        await move_operation(session, operation, OperationStatus.CANCELED, now, error=called_off)
    await session.execute(
        update(Operation)
        .where(of_earlier, Operation.sealed.is_not(None))
        .values(sealed=None, key_id=None)
        .execution_options(synchronize_session=False)
    )


def _add_operations(
    session: AsyncSession,
    keys: SealingKeys,
    project: Project,
    application: Application,
    actions: Sequence[Action],
    present: ProjectState,
    now: datetime,
) -> None:
    if not actions:
        application.finished_at = now
        return
    application.status = ApplicationStatus.RUNNING.value
    for position, action in enumerate(actions):
        sealed = seal_actions(keys, [action], project.public_id)
        session.add(
            Operation(
                application_id=application.id,
                position=position,
                action=json.dumps(action.to_json()),
                agreed=write_agreed([action], present),
                key_id=sealed.key_id,
                sealed=sealed.data,
                status=OperationStatus.PENDING.value,
                attempts=0,
            )
        )

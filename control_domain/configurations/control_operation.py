"""What people do with one operation of an application: cancel it, or have it tried again."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record
from control_domain.configurations.application_status import WISHES
from control_domain.configurations.applications import (
    find_application,
    find_operation,
    hold_application,
    move_operation,
    operations_of,
    settle_application,
)
from control_domain.configurations.lowered_gates import check_agreed, find_lowered_gates, write_agreed
from control_domain.configurations.read_state import read_state
from control_domain.configurations.sealed_actions import open_actions
from control_domain.projects.hold import hold_project
from control_domain.sealing import Sealed, SealingKeys
from control_domain.tables.configuration import Application, Operation, Review
from control_domain.tables.projects import Project
from pipeline_contracts.deploy_states import OperationStatus
from pipeline_contracts.errors import OperationNotPossible

_DONE = {"cancel": "canceled", "retry": "tried again"}


async def control_operation(
    session: AsyncSession,
    project: Project,
    application_id: int | None,
    operation_id: int | None,
    wish: str,
    actor: Actor,
    now: datetime,
    keys: SealingKeys | None = None,
    agreed_by_id: int | None = None,
) -> Operation:
    """Cancel an operation that waits, or try one again that has failed or was canceled (`wish`: one of `WISHES`).

    To try again needs `keys`, and where that lowers a gate as it is now, `agreed_by_id`: a person who may decide in the
    project, and who has not made the review. Raises `NotFound`, `OperationNotPossible` where it is elsewhere by now or
    a later application has begun, `DeployNotAllowed` and `CannotOpen`.
    """
    await hold_project(session, project)
    application = await find_application(session, project, application_id)
    await hold_application(session, application.id)
    operation = await find_operation(session, application, operation_id)
    allowed, to = WISHES[wish]
    lowered: Sequence[str] = []
    if operation.status not in allowed:
        told = " or ".join(sorted(status.value for status in allowed))
        raise OperationNotPossible(
            f"Operation {operation.id} is {operation.status}: only one that is {told} can be {_DONE[wish]}."
        )
    if to is OperationStatus.PENDING:
        await _check_newest(session, application)
        assert keys is not None
        lowered = await _check_gates(session, keys, project, application, operation, agreed_by_id)
    await move_operation(session, operation, to, now, error=None)
    await session.refresh(application)
    await settle_application(session, application, now)
    subject = f"project {project.public_id}"
    details: dict[str, Any] = {"application": application.id, "operation": operation.id}
    if lowered:
        details |= {"lowered": list(lowered), "approved_by_id": agreed_by_id}
    record(session, actor, project.account_id, f"configuration.{wish}", subject, now, details)
    await session.flush()
    return operation


async def _check_gates(
    session: AsyncSession,
    keys: SealingKeys,
    project: Project,
    application: Application,
    operation: Operation,
    agreed_by_id: int | None,
) -> Sequence[str]:
    """Gives what is lowered by the operation and by those that go on with it. The gates of now count: they may have
    been raised since the review was applied."""
    going_on = [
        one
        for one in await operations_of(session, application.id)
        if one.id == operation.id or one.status == OperationStatus.PENDING
    ]
    actions_of = {
        one: open_actions(keys, Sealed(one.key_id, one.sealed), project.public_id)
        for one in going_on
        if one.sealed is not None and one.key_id is not None
    }
    actions = [action for some in actions_of.values() for action in some]
    if all(action.kind != "environment" for action in actions):
        return []
    state = await read_state(session, keys, project)
    lowered = find_lowered_gates(actions, state)
    review = await session.get_one(Review, application.review_id)
    advice = (
        "somebody else than who made the review, who may decide in the project, has to try it again (`pharos config "
        "retry` takes that person with --by EMAIL). Or make a new review."
    )
    check_agreed(
        review, f"Operation {operation.id}, with what waits behind it,", lowered, agreed_by_id, advice
    )
    for one, some in actions_of.items():
        one.agreed = write_agreed(some, state)
    return lowered


async def _check_newest(session: AsyncSession, application: Application) -> None:
    query = select(func.max(Application.id)).where(Application.project_id == application.project_id)
    newest = (await session.execute(query)).scalar_one()
    if newest != application.id:
        raise OperationNotPossible(
            f"Application {newest} came after this one, and was planned without it: make a new review."
        )

"""What people do with one operation of an application: cancel it, or have it tried again."""

from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_api.audit.operations import Actor, record
from control_api.configuration.application_status import WISHES
from control_api.configuration.applications import (
    find_application,
    find_operation,
    hold_application,
    move_operation,
    settle_application,
)
from control_api.configuration.tables import Application, Operation
from control_api.projects.hold import hold_project
from control_api.projects.tables import Project
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
) -> Operation:
    """Cancel an operation that waits, or try one again that has failed or was canceled (`wish`: one of `WISHES`).

    Raises `NotFound`, and `OperationNotPossible` where it is elsewhere by now, or a later application has begun.
    """
    await hold_project(session, project)
    application = await find_application(session, project, application_id)
    await hold_application(session, application.id)
    operation = await find_operation(session, application, operation_id)
    allowed, to = WISHES[wish]
    if operation.status not in allowed:
        told = " or ".join(sorted(status.value for status in allowed))
        raise OperationNotPossible(
            f"Operation {operation.id} is {operation.status}: only one that is {told} can be {_DONE[wish]}."
        )
    if to is OperationStatus.PENDING:
        await _check_newest(session, application)
    await move_operation(session, operation, to, now, error=None)
    await session.refresh(application)
    await settle_application(session, application, now)
    subject = f"project {project.public_id}"
    details = {"application": application.id, "operation": operation.id}
    record(session, actor, project.account_id, f"configuration.{wish}", subject, now, details)
    await session.flush()
    return operation


async def _check_newest(session: AsyncSession, application: Application) -> None:
    query = select(func.max(Application.id)).where(Application.project_id == application.project_id)
    newest = (await session.execute(query)).scalar_one()
    if newest != application.id:
        raise OperationNotPossible(
            f"Application {newest} came after this one, and was planned without it: make a new review."
        )

"""Applications and their operations in the database: found, described, moved from state to state."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.configurations.application_status import ApplicationStatus, sum_up
from control_domain.database.engine import hold_row
from control_domain.database.move_status import move_status
from control_domain.tables.configuration import Application, Operation
from control_domain.tables.projects import Project
from pipeline_contracts.deploy_states import OperationStatus
from pipeline_contracts.errors import NotFound
from pipeline_contracts.times import format_time

_ENDED = (OperationStatus.SUCCEEDED, OperationStatus.FAILED, OperationStatus.CANCELED)


async def find_application(session: AsyncSession, project: Project, number: int | None) -> Application:
    """The project's application of this number, as it is now. Raises `NotFound`."""
    query = select(Application).where(Application.project_id == project.id, Application.id == number)
    found = await session.execute(query.execution_options(populate_existing=True))
    application = found.scalar_one_or_none()
    if application is None:
        raise NotFound("The project has no such application.")
    return application


async def operations_of(session: AsyncSession, application_id: int) -> Sequence[Operation]:
    """The application's operations in their order, as they are now."""
    query = select(Operation).where(Operation.application_id == application_id).order_by(Operation.position)
    return (await session.execute(query.execution_options(populate_existing=True))).scalars().all()


async def find_operation(session: AsyncSession, application: Application, number: int | None) -> Operation:
    """The application's operation of this number, as it is now. Raises `NotFound`."""
    query = select(Operation).where(Operation.application_id == application.id, Operation.id == number)
    found = await session.execute(query.execution_options(populate_existing=True))
    operation = found.scalar_one_or_none()
    if operation is None:
        raise NotFound("The application has no such operation.")
    return operation


async def hold_application(session: AsyncSession, application_id: int) -> None:
    """Let nobody else move its operations until the end of the transaction. Whoever holds its project too does that
    first."""
    await hold_row(session, Application.source, Application.id == application_id)


async def move_operation(
    session: AsyncSession, operation: Operation, to: OperationStatus, now: datetime, **values: Any
) -> None:
    """Give the operation its next status, and `values`. Raises `ForbiddenMove` for a move that the table does not have,
    and where somebody else has moved it since it was read."""
    ended = now if to in _ENDED else None
    await move_status(session, operation, to, finished_at=ended, **values)


async def settle_application(session: AsyncSession, application: Application, now: datetime) -> None:
    """Give the application the status that its operations come to."""
    operations = await operations_of(session, application.id)
    status = sum_up([OperationStatus(one.status) for one in operations])
    application.status = status.value
    if status is ApplicationStatus.RUNNING:
        application.finished_at = None
    else:
        application.finished_at = application.finished_at or now
        application.holder = application.leased_until = None
    await session.flush()


def describe_application(application: Application, operations: Sequence[Operation]) -> dict[str, Any]:
    """As the public API has it."""
    return {
        "id": application.id,
        "review_id": application.review_id,
        "status": application.status,
        "created_at": format_time(application.created_at),
        "finished_at": _time(application.finished_at),
        "operations": [describe_operation(one) for one in operations],
    }


def describe_operation(operation: Operation) -> dict[str, Any]:
    """As the public API has it; secrets are masked."""
    return {
        "id": operation.id,
        **json.loads(operation.action),
        "status": operation.status,
        "error": operation.error,
        "attempts": operation.attempts,
        "started_at": _time(operation.started_at),
        "finished_at": _time(operation.finished_at),
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)

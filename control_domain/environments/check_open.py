"""Whether an environment takes a deploy now. Asked at the request, and again when the work is taken up."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.environments.windows import load_window
from control_domain.tables.accounts import Person
from control_domain.tables.projects import Environment, EnvironmentLock
from pipeline_contracts.deploy_states import EnvironmentState
from pipeline_contracts.errors import (
    EnvironmentLocked,
    EnvironmentNotReady,
    FieldError,
    NotFound,
    OutsideWindow,
)


async def check_open(session: AsyncSession, environment: Environment, now: datetime) -> None:
    """Gives `environment` the present settings: what was read before a body came may be half a minute old.

    Raises `EnvironmentLocked`, `OutsideWindow` or `EnvironmentNotReady`, and `NotFound` where it was removed since it
    was looked for.
    """
    found = (
        await session.execute(
            select(Environment, EnvironmentLock.reason, Person.name)
            .outerjoin(EnvironmentLock, EnvironmentLock.environment_id == Environment.id)
            .outerjoin(Person, Person.id == EnvironmentLock.person_id)
            .where(Environment.id == environment.id)
            .execution_options(populate_existing=True)
        )
    ).one_or_none()
    if found is None:
        raise NotFound("The account has no such environment.")
    _, reason, name = found
    if reason is not None:
        held = f"is locked by {name or 'an operator'}: {reason}"
        raise EnvironmentLocked(f"The environment {held}", errors=[FieldError("locked", held)])
    window = load_window(environment.deploy_window)
    if window is not None and not window.is_open(now):
        raise OutsideWindow(
            f"The environment takes deploys {window} only.", errors=[FieldError("window", f"is {window}")]
        )
    if environment.state != EnvironmentState.RUNNING:
        raise EnvironmentNotReady(
            "The environment is hibernated: wake it first.", errors=[FieldError("state", "is hibernated")]
        )

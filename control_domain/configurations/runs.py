"""Configuration runs and their steps: status rules and database rows."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.statements import lock_row, move_status
from control_domain.tables.configuration import ConfigurationRun, RunStep
from control_domain.tables.projects import Project
from pipeline_contracts.deploy_states import StepStatus
from pipeline_contracts.errors import NotFound
from pipeline_contracts.times import format_time

_ENDED = (StepStatus.SUCCEEDED, StepStatus.FAILED, StepStatus.CANCELED)


class ConfigurationRunStatus(StrEnum):
    """Status of a configuration run."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """A step has failed; the steps after it wait until a retry succeeds."""
    CANCELED = "canceled"
    """No step is left, and at least one was canceled."""


STEP_TRANSITIONS: Mapping[str, tuple[frozenset[StepStatus], StepStatus]] = {
    "cancel": (frozenset({StepStatus.PENDING}), StepStatus.CANCELED),
    "retry": (frozenset({StepStatus.FAILED, StepStatus.CANCELED}), StepStatus.PENDING),
}
"""What people can request for a step: the statuses that allow the request, and the status that follows."""


def find_next_step(statuses: Sequence[StepStatus]) -> int | None:
    """Return the index of the step to apply now; None if nothing is left or a failed step blocks the rest.

    `statuses`: those of all steps in order. A step in progress comes first.
    """
    if StepStatus.RUNNING in statuses:
        return statuses.index(StepStatus.RUNNING)
    for index, status in enumerate(statuses):
        if status is StepStatus.PENDING:
            return index
        if status is StepStatus.FAILED:
            return None
    return None


def summarize_steps(statuses: Sequence[StepStatus]) -> ConfigurationRunStatus:
    """Return the status of the run whose steps have these statuses."""
    if find_next_step(statuses) is not None:
        return ConfigurationRunStatus.RUNNING
    if StepStatus.FAILED in statuses:
        return ConfigurationRunStatus.FAILED
    if StepStatus.CANCELED in statuses:
        return ConfigurationRunStatus.CANCELED
    return ConfigurationRunStatus.SUCCEEDED


async def find_run(session: AsyncSession, project: Project, number: int | None) -> ConfigurationRun:
    """Return the project's configuration run with this ID, freshly read. Raises `NotFound`."""
    query = select(ConfigurationRun).where(
        ConfigurationRun.project_id == project.id, ConfigurationRun.id == number
    )
    found = await session.execute(query.execution_options(populate_existing=True))
    run = found.scalar_one_or_none()
    if run is None:
        raise NotFound("The project has no such application.")
    return run


async def list_steps(session: AsyncSession, run_id: int) -> Sequence[RunStep]:
    """Return the run's steps in order, freshly read."""
    query = select(RunStep).where(RunStep.run_id == run_id).order_by(RunStep.position)
    return (await session.execute(query.execution_options(populate_existing=True))).scalars().all()


async def find_step(session: AsyncSession, run: ConfigurationRun, number: int | None) -> RunStep:
    """Return the run's step with this ID, freshly read. Raises `NotFound`."""
    query = select(RunStep).where(RunStep.run_id == run.id, RunStep.id == number)
    found = await session.execute(query.execution_options(populate_existing=True))
    step = found.scalar_one_or_none()
    if step is None:
        raise NotFound("The application has no such operation.")
    return step


async def lock_run(session: AsyncSession, run_id: int) -> None:
    """Lock the run and its steps until the end of the transaction. A caller that also locks the project locks the
    project first."""
    await lock_row(session, ConfigurationRun.source, ConfigurationRun.id == run_id)


async def move_step(
    session: AsyncSession, step: RunStep, to: StepStatus, now: datetime, **values: Any
) -> None:
    """Set the step's next status, and `values`. Raises `ForbiddenTransition` if the status cannot follow the present
    one, or if the step was moved since it was read."""
    ended = now if to in _ENDED else None
    await move_status(session, step, to, finished_at=ended, **values)


async def update_run_status(session: AsyncSession, run: ConfigurationRun, now: datetime) -> None:
    """Derive the run's status from its steps and store it; release the lease of a finished run."""
    steps = await list_steps(session, run.id)
    status = summarize_steps([StepStatus(step.status) for step in steps])
    run.status = status.value
    if status is ConfigurationRunStatus.RUNNING:
        run.finished_at = None
    else:
        run.finished_at = run.finished_at or now
        run.holder = run.leased_until = None
    await session.flush()


def describe_run(run: ConfigurationRun, steps: Sequence[RunStep]) -> dict[str, Any]:
    """Return the run as JSON of the public API."""
    return {
        "id": run.id,
        "review_id": run.review_id,
        "status": run.status,
        "created_at": format_time(run.created_at),
        "finished_at": _format_time(run.finished_at),
        "operations": [describe_step(step) for step in steps],
    }


def describe_step(step: RunStep) -> dict[str, Any]:
    """Return the step as JSON of the public API, with masked secrets."""
    return {
        "id": step.id,
        **json.loads(step.action),
        "status": step.status,
        "error": step.error,
        "attempts": step.attempts,
        "started_at": _format_time(step.started_at),
        "finished_at": _format_time(step.finished_at),
    }


def _format_time(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)

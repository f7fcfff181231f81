"""Reads the configuration runs of a project."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, cast

from msgspec import Meta
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.paging import Page
from control_domain.tables.configuration import ConfigurationRun, RunStep
from control_domain.tables.projects import Project
from pipeline_contracts.times import format_time


class ConfigurationApplicationSummary(TypedDict):
    """An application of a configuration review, without its operations."""

    id: int
    review_id: int
    status: Literal["running", "succeeded", "failed", "canceled"]
    created_at: str
    finished_at: str | None
    counts: Annotated[
        dict[str, int],
        Meta(
            description="The number of operations in each status; statuses without operations are left out."
        ),
    ]


class ListedRun(NamedTuple):
    """A configuration run, and the number of its steps in each status."""

    run: ConfigurationRun
    counts: Mapping[str, int]


async def list_runs(session: AsyncSession, project: Project, page: Page) -> tuple[Sequence[ListedRun], bool]:
    """Return a page of the project's configuration runs, the newest first, and whether more follow."""
    query = (
        select(ConfigurationRun)
        .where(ConfigurationRun.project_id == project.id)
        .order_by(ConfigurationRun.id.desc())
        .limit(page.limit + 1)
    )
    if page.before is not None:
        query = query.where(ConfigurationRun.id < page.before)
    runs = (await session.execute(query)).scalars().all()
    counts: dict[int, dict[str, int]] = {run.id: {} for run in runs[: page.limit]}
    by_status = (
        select(RunStep.run_id, RunStep.status, func.count())
        .where(RunStep.run_id.in_(counts))
        .group_by(RunStep.run_id, RunStep.status)
    )
    for number, status, count in await session.execute(by_status):
        counts[number][status] = count
    return [ListedRun(run, counts[run.id]) for run in runs[: page.limit]], len(runs) > page.limit


def describe_listed_run(listed: ListedRun) -> ConfigurationApplicationSummary:
    run = listed.run
    return {
        "id": run.id,
        "review_id": run.review_id,
        "status": cast(Any, run.status),
        "created_at": format_time(run.created_at),
        "finished_at": None if run.finished_at is None else format_time(run.finished_at),
        "counts": dict(listed.counts),
    }

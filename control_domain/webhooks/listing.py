"""Reads the stored deliveries of a repository, and the waiting pushes of a project."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from control_domain.paging import Page
from control_domain.tables.projects import Environment, Project
from control_domain.tables.repositories import Repository
from control_domain.tables.webhooks import WaitingPush, WebhookDelivery
from pipeline_contracts.errors import NotFound


async def list_deliveries(
    session: AsyncSession, repository: Repository, page: Page
) -> tuple[Sequence[WebhookDelivery], bool]:
    """Return a page of the repository's deliveries without headers and bodies, the newest first, and whether more
    follow."""
    query = (
        select(WebhookDelivery)
        .where(WebhookDelivery.repository_id == repository.id)
        # Do not load bodies, which may have megabytes.
        .options(defer(WebhookDelivery.body, raiseload=True), defer(WebhookDelivery.headers, raiseload=True))
        .order_by(WebhookDelivery.id.desc())
        .limit(page.limit + 1)
    )
    if page.before is not None:
        query = query.where(WebhookDelivery.id < page.before)
    rows = (await session.execute(query)).scalars().all()
    return rows[: page.limit], len(rows) > page.limit


async def find_delivery(session: AsyncSession, repository: Repository, number: int | None) -> WebhookDelivery:
    """Return the repository's delivery with this ID. Raises `NotFound`."""
    query = select(WebhookDelivery).where(
        WebhookDelivery.repository_id == repository.id, WebhookDelivery.id == number
    )
    found = (await session.execute(query)).scalar_one_or_none()
    if found is None:
        raise NotFound("The repository has no such delivery in the last 7 days.")
    return found


class ListedPush(NamedTuple):
    """A push that waits, and the environment that it will be deployed to."""

    push: WaitingPush
    environment: Environment


async def list_waiting_pushes(
    session: AsyncSession, project: Project, page: Page
) -> tuple[Sequence[ListedPush], bool]:
    """Return a page of the pushes that wait until their environment has no active deployment, and whether more
    follow."""
    query = (
        select(WaitingPush, Environment)
        .join(Environment, Environment.id == WaitingPush.environment_id)
        .where(Environment.project_id == project.id)
        .order_by(WaitingPush.id.desc())
        .limit(page.limit + 1)
    )
    if page.before is not None:
        query = query.where(WaitingPush.id < page.before)
    rows = [ListedPush(*row) for row in await session.execute(query)]
    return rows[: page.limit], len(rows) > page.limit

"""Webhooks as an operator looks at them: what came in the last days, one of them run again, what waits."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from control_domain.audit import make_operator
from control_domain.refusals import Refused
from control_domain.tables.projects import Environment, Project
from control_domain.tables.repositories import Repository
from control_domain.tables.webhooks import WaitingPush, WebhookDelivery
from control_domain.webhooks.deliveries import read_body, read_headers, unknown_delivery_error
from control_domain.webhooks.replay_delivery import replay_delivery
from operator_actions.actions.engines import Action, Engines, Params, read_id
from pipeline_contracts.times import format_time

MOST_LISTED = 1000
_LIMIT = 20


class _Kept(NamedTuple):
    """A delivery and what it is of; those of the Git host's application are of no repository."""

    delivery: WebhookDelivery
    repository: Repository | None
    project: Project | None


async def _list(engines: Engines, params: Params, now: datetime) -> Any:
    """The newest deliveries, newest first. `params`: limit (20), repository_id (may be left out)."""
    limit = _LIMIT if params.get("limit") is None else int(params["limit"])
    if not 1 <= limit <= MOST_LISTED:
        raise Refused(f"{limit} deliveries cannot be listed: ask for 1 to {MOST_LISTED:,}.")
    newest = _deliveries().order_by(WebhookDelivery.id.desc()).limit(limit)
    # Bodies may be megabytes.
    newest = newest.options(defer(WebhookDelivery.body), defer(WebhookDelivery.headers))
    async with engines.sessions() as session:
        if params.get("repository_id") is not None:
            repository = await _choose_repository(session, read_id(params, "repository_id"))
            newest = newest.where(WebhookDelivery.repository_id == repository.id)
        return [_describe(_Kept(*row)) for row in await session.execute(newest)]


async def _show(engines: Engines, params: Params, now: datetime) -> Any:
    """Return one delivery with its `headers` (lists of values by name) and its `body` (the received text). A trimmed
    delivery has a null body and no headers. `params`: id."""
    async with engines.sessions() as session:
        kept = await _the_one(session, read_id(params, "id"))
    body = read_body(kept.delivery)
    return {
        **_describe(kept),
        "headers": dict(read_headers(kept.delivery)),
        "body": None if body is None else body.decode(errors="replace"),
    }


async def _replay(engines: Engines, params: Params, now: datetime) -> Any:
    """Run a delivery again; gives the delivery that comes of it. `params`: id."""
    made = await replay_delivery(
        engines.sessions,
        engines.directory,
        engines.sealing_keys,
        read_id(params, "id"),
        make_operator(params),
        now,
    )
    async with engines.sessions() as session:
        return _describe(await _the_one(session, made.id))


async def _list_waiting(engines: Engines, params: Params, now: datetime) -> Any:
    """The pushes that wait until nothing is deployed to their environment, the oldest first."""
    query = (
        select(WaitingPush, Environment.slug, Project.slug)
        .join(Environment, Environment.id == WaitingPush.environment_id)
        .join(Project, Project.id == Environment.project_id)
        .order_by(WaitingPush.created_at, WaitingPush.id)
    )
    async with engines.sessions() as session:
        return [
            {
                "environment": environment,
                "project": project,
                "branch": waiting.branch,
                "revision": waiting.pushed_revision,
                "trigger": waiting.trigger,
                "since": format_time(waiting.created_at),
            }
            for waiting, environment, project in await session.execute(query)
        ]


def _deliveries() -> Any:
    """What `_Kept` has; the repository may be disconnected."""
    return (
        select(WebhookDelivery, Repository, Project)
        .outerjoin(Repository, Repository.id == WebhookDelivery.repository_id)
        .outerjoin(Project, Project.id == Repository.project_id)
    )


async def _the_one(session: AsyncSession, number: int) -> _Kept:
    row = (await session.execute(_deliveries().where(WebhookDelivery.id == number))).one_or_none()
    if row is None:
        raise unknown_delivery_error(number)
    return _Kept(*row)


async def _choose_repository(session: AsyncSession, number: int) -> Repository:
    """One that was disconnected, too."""
    repository = await session.get(Repository, number)
    if repository is None:
        raise Refused(
            f"There is no repository {number}; `pharos repository list` shows those that are connected."
        )
    return repository


def _describe(kept: _Kept) -> dict[str, Any]:
    delivery, repository, project = kept
    return {
        "id": delivery.id,
        "received_at": format_time(delivery.received_at),
        "repository": None if repository is None else {"id": repository.id, "url": repository.url},
        "project": None if project is None else project.slug,
        "kind": delivery.kind,
        "event": delivery.event,
        "delivery": delivery.delivery,
        "http_status": delivery.http_status,
        "status": delivery.answer,
        "deployment_id": delivery.deployment_id,
        "reason": delivery.reason,
        "replay_of": delivery.replay_of,
    }


ACTIONS: Mapping[str, Action] = {
    "webhooks/list": _list,
    "webhooks/show": _show,
    "webhooks/replay": _replay,
    "webhooks/waiting": _list_waiting,
}

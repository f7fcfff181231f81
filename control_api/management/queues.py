"""Queues of jobs and their workers: `/v1/monitors/queues`."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from analytics_queries.queue_history import QueueStep, queue_history
from control_api.management.monitor_lists import MonitorQuery, read_filters
from control_api.management.telemetry_pages import DAY, Duration, RangeQuery, read_store
from control_api.operations.access import At, at, at_account
from control_api.operations.bodies import json_body
from control_api.operations.pages import PageOf, PageQuery, read_pages, read_sorted_pages
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import Right
from control_domain.monitors import listing, manage_queues
from control_domain.monitors.describe import (
    ListedQueue,
    QueueDocument,
    QueueSeriesDocument,
    RemovedMonitor,
    WorkerDocument,
    describe_listed_queue,
    describe_queue,
    describe_queue_series,
    describe_removed,
    describe_worker,
)
from control_domain.monitors.describe_keys import CreatedQueue, describe_new_monitor_key
from control_domain.monitors.find import FoundQueue, find_queue
from control_domain.monitors.monitor_keys import add_monitor_key
from control_domain.monitors.settings import MonitorName
from control_domain.projects.find import DeployTarget, find_environment
from control_domain.tables.accounts import Account
from control_domain.telemetry.time_ranges import read_range, read_step
from pipeline_contracts.errors import Conflict, DeployNotAllowed, NameTaken, NotFound, Unavailable

operations = OperationRouter("Monitoring")

_Read = Annotated[At[FoundQueue], at(find_queue, "queue", "monitoring:read", Right.READ)]
_Change = Annotated[At[FoundQueue], at(find_queue, "queue", "monitoring:write", Right.DEPLOY)]


_TREND_STEPS = 30


class QueueQuery(MonitorQuery, kw_only=True):
    """The page and the filters of the list of queues."""

    trend: Annotated[
        Duration | None,
        Meta(
            description="The length of the trend of each queue up to now, which has 30 steps.",
            examples=["3h"],
        ),
    ] = None


class QueueSeriesQuery(RangeQuery, kw_only=True):
    """The time range of the history of a queue."""

    step: Annotated[
        Duration | None,
        Meta(
            description="The length of a step. By default, there are about a hundred steps.",
            examples=["1m", "15m"],
        ),
    ] = None


class CreateQueue(Struct, kw_only=True):
    """A new queue."""

    name: MonitorName


class UpdateQueue(Struct, kw_only=True):
    """The fields of a queue that change."""

    name: MonitorName | None = None


def _settings(document: QueueDocument) -> dict[str, str]:
    return {"name": document["name"]}


@operations.get("/v1/monitors/queues", problems=[NotFound, DeployNotAllowed])
async def list_queues(
    at: Annotated[At[Account], at_account("monitoring:read")],
    params: Annotated[QueueQuery, query(QueueQuery)],
) -> PageOf[ListedQueue]:
    """List queues.

    The queues of all projects in which you have a role, the newest first; with `trend` also the recent figures of each
    queue.
    """
    pages = read_pages(at, params, "queues")
    filters = await read_filters(at, params)
    found, has_more = await listing.list_queues(at.session, at.caller, filters, pages.page)
    clock_ms = await listing.read_queue_clock(at.session, at.now)
    workers = await listing.count_workers(at.session, [each.monitor for each in found], clock_ms)
    documents = [describe_queue(each, workers.get(each.monitor.id, {})) for each in found]
    last = found[-1].monitor.id if has_more else None
    trends = None if params.trend is None else await _read_trends(at, found, params.trend)
    return pages.answer(
        [
            describe_listed_queue(each, None if trends is None else trends.get(each["id"], []))
            for each in documents
        ],
        last,
    )


async def _read_trends(
    at: At[Account], found: Sequence[FoundQueue], since: str
) -> Mapping[int, Sequence[QueueStep]] | None:
    """Return the steps by the number of the queue; None while the column store does not answer. Ends the transaction.
    Raises `InvalidInput`."""
    within = read_range(since, None, None, DAY, at.now)
    step_ms = max(1000, round(within.seconds * 1000 / _TREND_STEPS))
    environments = {each.environment.public_id for each in found}
    queues, store = [each.monitor.id for each in found], at.column_store
    try:
        return await read_store(at, lambda: queue_history(store, environments, queues, within, step_ms))
    except Unavailable:
        # The list does not need the column store for the states of the queues.
        return None


@operations.post(
    "/v1/environments/{environment}/queues", status=201, problems=[NameTaken, Conflict], secret=True
)
async def create_queue(
    at: Annotated[At[DeployTarget], at(find_environment, "environment", "monitoring:write", Right.DEPLOY)],
    body: Annotated[CreateQueue, json_body(CreateQueue)],
) -> CreatedQueue:
    """Create a queue.

    The response has a monitor key, which is not shown again.
    """
    found = await manage_queues.add_queue(at.session, at.found, body.name, at.actor, at.now)
    key, secret = await add_monitor_key(at.session, found, None, at.actor, at.now)
    at.publish_after_commit([key.digest])
    return {**describe_queue(found, {}), "key": describe_new_monitor_key(key, secret, at.now)}


@operations.get("/v1/monitors/queues/{queue}", etag=_settings)
async def read_queue(at: _Read) -> QueueDocument:
    """Read a queue.

    Its newest snapshot, and the number of its workers.
    """
    return await _describe(at)


@operations.get("/v1/monitors/queues/{queue}/series")
async def read_queue_series(
    at: _Read, params: Annotated[QueueSeriesQuery, query(QueueSeriesQuery)]
) -> QueueSeriesDocument:
    """Read the history of a queue.

    The figures from its snapshots and workers in each step of the time range, by default the last day. Steps begin at
    multiples of their length. History is kept for 90 days.
    """
    within = params.read(DAY, at.now)
    step_ms = read_step(params.step, within)
    environment, queue = at.found.environment.public_id, at.found.monitor.id
    store = at.column_store
    history = await read_store(at, lambda: queue_history(store, [environment], [queue], within, step_ms))
    return describe_queue_series(history.get(queue, []), step_ms)


@operations.patch("/v1/monitors/queues/{queue}", etag=_settings, problems=[NameTaken])
async def update_queue(at: _Change, body: Annotated[UpdateQueue, json_body(UpdateQueue)]) -> QueueDocument:
    """Rename a queue."""
    queue = at.found.monitor
    await manage_queues.lock_queue(at.session, queue)
    at.check_if_match({"name": queue.name})
    if body.name is not None:
        await manage_queues.rename_queue(at.session, at.found, body.name, at.actor, at.now)
    return await _describe(at)


@operations.delete("/v1/monitors/queues/{queue}", checks_if_match=True)
async def delete_queue(at: _Change) -> RemovedMonitor:
    """Remove a queue.

    Removes it with its keys and workers. No edge accepts its keys after 5 seconds.
    """
    await manage_queues.lock_queue(at.session, at.found.monitor)
    at.check_if_match({"name": at.found.monitor.name})
    digests = await manage_queues.delete_queue(at.session, at.found, at.actor, at.now)
    at.revoke_after_commit(digests)
    return describe_removed(at.found, len(digests))


@operations.get("/v1/monitors/queues/{queue}/workers")
async def list_queue_workers(
    at: _Read, params: Annotated[PageQuery, query(PageQuery)]
) -> PageOf[WorkerDocument]:
    """List the workers of a queue.

    Ordered by their IDs, each with its newest update.
    """
    pages = read_sorted_pages(at, params, f"workers of queue {at.found.monitor.id}")
    workers, has_more = await listing.list_workers(at.session, at.found.monitor, pages.limit, pages.after)
    clock_ms = await listing.read_queue_clock(at.session, at.now)
    return pages.answer(
        [describe_worker(worker, clock_ms) for worker in workers],
        workers[-1].worker_id if has_more else None,
    )


async def _describe(at: At[FoundQueue]) -> QueueDocument:
    clock_ms = await listing.read_queue_clock(at.session, at.now)
    workers = await listing.count_workers(at.session, [at.found.monitor], clock_ms)
    return describe_queue(at.found, workers.get(at.found.monitor.id, {}))

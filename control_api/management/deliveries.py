"""Webhook deliveries of a repository, and the pushes that wait."""

import asyncio
from typing import Annotated

from control_api.operations.access import At, at
from control_api.operations.pages import PageOf, PageQuery, read_pages
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import Right
from control_domain.projects.find import find_project
from control_domain.repositories.find import FoundRepository, find_repository
from control_domain.tables.projects import Project
from control_domain.webhooks.describe import (
    DeliveryDocument,
    DeliveryWithPayload,
    WaitingPushDocument,
    describe_delivery,
    describe_delivery_with_payload,
    describe_waiting_push,
)
from control_domain.webhooks.listing import find_delivery, list_deliveries, list_waiting_pushes
from control_domain.webhooks.replay_delivery import replay
from pipeline_contracts.errors import Conflict

operations = OperationRouter("Projects")

_Read = Annotated[At[FoundRepository], at(find_repository, "repository", "deploy:read", Right.READ)]
_Deploy = Annotated[At[FoundRepository], at(find_repository, "repository", "deploy:write", Right.DEPLOY)]
_Project = Annotated[At[Project], at(find_project, "project", "deploy:read", Right.READ)]


@operations.get("/v1/repositories/{repository}/deliveries")
async def list_repository_deliveries(
    at: _Read, page: Annotated[PageQuery, query(PageQuery)]
) -> PageOf[DeliveryDocument]:
    """List the deliveries of a webhook.

    The deliveries of the last 7 days with a valid signature, newest first, each with its outcome.
    """
    pages = read_pages(at, page, f"deliveries of {at.found.repository.id}")
    rows, has_more = await list_deliveries(at.session, at.found.repository, pages.page)
    return pages.answer([describe_delivery(row) for row in rows], rows[-1].id if has_more else None)


@operations.get("/v1/repositories/{repository}/deliveries/{delivery}")
async def read_delivery(at: _Read) -> DeliveryWithPayload:
    """Read a delivery with its headers and its body."""
    row = await find_delivery(at.session, at.found.repository, at.number("delivery"))
    await at.end_transaction()
    # Decompress in a thread, because a body may have 5 MiB.
    return await asyncio.to_thread(describe_delivery_with_payload, row)


@operations.post("/v1/repositories/{repository}/deliveries/{delivery}/replay", problems=[Conflict])
async def replay_delivery(at: _Deploy) -> DeliveryDocument:
    """Process a delivery again.

    Returns the new delivery. If it removes a preview whose deploys or variables need approvals, the caller needs the
    role maintainer. 409 if the body is no longer kept, or if the delivery cannot be processed now.
    """
    original = await find_delivery(at.session, at.found.repository, at.number("delivery"))
    replayed = await replay(at.session, at.sealing_keys, original, at.caller, at.actor, at.now)
    at.revoke_after_commit(replayed.removed_key_digests)
    return describe_delivery(replayed.delivery)


@operations.get("/v1/projects/{project}/waiting-pushes")
async def list_waiting(
    at: _Project, page: Annotated[PageQuery, query(PageQuery)]
) -> PageOf[WaitingPushDocument]:
    """List the pushes that wait.

    Pushes of branches that are queued once the active deployment of their environment is finished, newest first.
    """
    pages = read_pages(at, page, f"waiting pushes of {at.found.public_id}")
    rows, has_more = await list_waiting_pushes(at.session, at.found, pages.page)
    return pages.answer([describe_waiting_push(row) for row in rows], rows[-1].push.id if has_more else None)

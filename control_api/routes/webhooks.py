"""`POST /repositories/{repository}/webhook` and `POST /git-app/webhook`."""

import logging
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime

import orjson
from fastapi import APIRouter, Request, Response
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_api.http.client_address import client_address
from control_api.limits.webhook_bodies import WebhookBodies
from control_api.limits.webhook_limits import WebhookSenders
from control_api.request_session import Session, end_transaction
from control_api.requests.webhook_body import read_delivery
from control_domain.audit import Actor
from control_domain.database.public_ids import parse_number
from control_domain.keys import revoke_published_keys
from control_domain.repositories.webhook_secrets import open_secret
from control_domain.sealing import CannotOpen
from control_domain.tables.projects import Project
from control_domain.tables.repositories import Repository
from control_domain.tables.webhooks import SealedWebhookSecret
from control_domain.webhooks.deliveries import Delivery, store_refused_delivery, trim_bodies
from control_domain.webhooks.receive_delivery import receive_delivery
from control_domain.webhooks.targets import ACCEPTS_PUSHES, unknown_repository_error
from git_hosts.all_hosts import HOSTS
from git_hosts.github.host import GITHUB
from git_hosts.interface import Headers
from git_hosts.webhook_events import WebhookSecret
from pipeline_contracts.client_address import ClientAddresses, network_of
from pipeline_contracts.errors import (
    BadSignature,
    NotFound,
    PayloadNotUsable,
    PayloadTooLarge,
    RequestTimeout,
    Unavailable,
)

logger = logging.getLogger(__name__)

router = APIRouter(prefix="/api", tags=["Webhooks"])

_NO_WEBHOOK = "repositories without a webhook"
_FAILURES = (BadSignature, PayloadTooLarge, RequestTimeout)


@dataclass(frozen=True, slots=True)
class _Hook:
    """The webhook of a delivery, and the secret that signs its deliveries."""

    repository_id: int | None
    kind: str
    secret: WebhookSecret
    account: str | None = None
    """Owner of the repository; None for the webhook of the Git host's application."""

    @property
    def name(self) -> str:
        return _hook_name(self.repository_id)


def _hook_name(repository_id: int | None) -> str:
    return "the Git host's application" if repository_id is None else f"repository {repository_id}"


def _network(request: Request) -> str:
    return network_of(client_address(request, request.app.state.client_addresses))


def _is_exempt(request: Request) -> bool:
    """True if the sender is unknown: a trusted proxy names no client, or the connection comes over a socket file. An
    address of this machine is not exempt, because deployed applications have one too."""
    addresses: ClientAddresses = request.app.state.client_addresses
    address = client_address(request, addresses)
    return not address or addresses.is_trusted(address)


@router.post("/repositories/{repository}/webhook")
async def receive_repository_webhook(repository: str, request: Request, session: Session) -> Response:
    """Receive a push or a pull request of a repository."""
    senders: WebhookSenders = request.app.state.webhook_bodies.senders
    number, network = parse_number(repository), _network(request)
    is_exempt = _is_exempt(request) or senders.is_verified(_hook_name(number), network)
    # Check before the database query, so that guessed numbers are cheap.
    with senders.attempt(_NO_WEBHOOK, network, (NotFound,), is_exempt=is_exempt):
        hook = await _find_hook(request, session, number)
    await end_transaction(session)
    return await _handle_delivery(request, session, hook)


@router.post("/git-app/webhook")
@router.post("/github-app/webhook")
async def receive_app_webhook(request: Request, session: Session) -> Response:
    """Receive an event of the Git host's application."""
    secret: str | None = request.app.state.git_app_secret
    if secret is None:
        raise NotFound("No application of a Git host is set up: PHAROS_GIT_APP_SECRET is not set.")
    return await _handle_delivery(
        request, session, _Hook(None, GITHUB.kind, WebhookSecret(GITHUB.secret_kind, secret))
    )


async def _find_hook(request: Request, session: AsyncSession, number: int | None) -> _Hook:
    # Account scope: the URL of the webhook names the repository, and the signature proves it.
    query = (
        select(Repository.kind, SealedWebhookSecret, Project.account_id)
        .join(SealedWebhookSecret, SealedWebhookSecret.repository_id == Repository.id)
        .join(Project, Project.id == Repository.project_id)
        .where(Repository.id == number, ACCEPTS_PUSHES)
    )
    row = (await session.execute(query)).one_or_none()
    if number is None or row is None:
        raise unknown_repository_error()
    try:
        secret = open_secret(request.app.state.variable_keys, row[1])
    except CannotOpen as error:
        logger.error("the secret of repository %d's webhook cannot be opened: %s", number, error)
        raise Unavailable("The webhook's secret cannot be opened now.", retry_after=60) from error
    return _Hook(number, row[0], secret, f"account {row[2]}")


async def _handle_delivery(request: Request, session: AsyncSession, hook: _Hook) -> Response:
    bodies: WebhookBodies = request.app.state.webhook_bodies
    network = _network(request)
    with bodies.reading(hook.name, network, hook.account) as reading:
        headers = _headers(request)
        # Check before reading the body, so that nothing is read from a network that has failed too often.
        with bodies.senders.attempt(hook.name, network, _FAILURES, is_exempt=_is_exempt(request)):
            raw = await read_delivery(request, reading)
            now = datetime.now(UTC)
            HOSTS[hook.kind].webhooks.verify_signature(raw, headers, hook.secret, now)
            bodies.senders.record_valid(hook.name, network)
        if hook.account is not None:
            bodies.accepted.take(hook.account)
        if bodies.accepted.is_trim_due(hook.name, len(raw)):
            await trim_bodies(session, hook.repository_id)
            await end_transaction(session)
        delivery = await _read_delivery(session, hook, headers, raw, now)
        actor = Actor(f"webhook of {hook.name}", request_id=request.scope["state"]["request_id"])
        outcome = await receive_delivery(session, delivery, request.app.state.variable_keys, actor, now)
    if outcome.removed_key_digests and request.app.state.key_directory is not None:
        # If this fails, the edges receive the change with the next publication of all keys.
        await revoke_published_keys(request.app.state.key_directory, outcome.removed_key_digests)
    body = orjson.dumps(outcome.to_document())
    return Response(body, outcome.http_status, media_type="application/json")


async def _read_delivery(
    session: AsyncSession, hook: _Hook, headers: Headers, raw: bytes, now: datetime
) -> Delivery:
    reader = HOSTS[hook.kind].webhooks
    try:
        return Delivery(
            hook.repository_id,
            hook.kind,
            reader.read_event_name(headers),
            headers,
            raw,
            reader.read_delivery_id(headers),
        )
    except PayloadNotUsable as problem:
        await store_refused_delivery(
            session, Delivery(hook.repository_id, hook.kind, "", headers, raw), problem, now
        )
        await end_transaction(session)
        raise


def _headers(request: Request) -> Headers:
    headers: dict[str, list[str]] = defaultdict(list)
    for name, value in request.headers.items():
        headers[name].append(value)
    return headers

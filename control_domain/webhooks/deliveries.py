"""Stores the deliveries of the last 7 days, each once, with the response to it."""

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.statements import insert_if_absent
from control_domain.tables.webhooks import WebhookDelivery
from control_domain.webhooks.outcome import Outcome
from git_hosts.interface import Headers
from pipeline_contracts.errors import NotFound, Problem

RETENTION = timedelta(days=7)
MAX_UNRELATED_DELIVERIES = 1000
MAX_STORED_BYTES = 64 * 2**20
"""Quota for the compressed bodies of one webhook."""
# Marks a trimmed body: even an empty body has compressed bytes.
_NO_BODY = b""
APP_SCOPE = "app"
"""The scope of deliveries to the webhook of the Git host's application."""
_SECRET_HEADERS = ("signature", "token", "authorization", "cookie", "secret")
_REDACTED = "[redacted]"
_MAX_EVENT_LENGTH = 100
# The fastest level, because bodies are rarely read again.
_COMPRESSION_LEVEL = 1


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery with a valid signature, as received. `repository_id` is None for the Git host's application."""

    repository_id: int | None
    kind: str
    event: str
    headers: Headers = field(repr=False)
    body: bytes = field(repr=False)
    id: str | None = None
    """The host's ID of the delivery; None if it sends none."""
    replay_of: int | None = None

    @property
    def scope(self) -> str:
        """The scope in which delivery IDs are unique."""
        return APP_SCOPE if self.repository_id is None else str(self.repository_id)

    def to_row(self, now: datetime) -> dict[str, Any]:
        """Return the row of `webhook_deliveries`, without the response."""
        return {
            "repository_id": self.repository_id,
            "scope": self.scope,
            # Without an ID, deliveries with the same body are the same.
            "delivery": self.id or f"sha256:{hashlib.sha256(self.body).hexdigest()}",
            "kind": self.kind,
            "event": self.event[:_MAX_EVENT_LENGTH],
            "headers": json.dumps(redact(self.headers)),
            "body": zlib.compress(self.body, _COMPRESSION_LEVEL),
            "replay_of": self.replay_of,
            "received_at": now,
        }


def redact(headers: Headers) -> dict[str, list[str]]:
    """Return the headers with signatures, tokens and other secrets replaced."""
    return {
        name: [_REDACTED] * len(values) if any(word in name for word in _SECRET_HEADERS) else list(values)
        for name, values in headers.items()
    }


def read_headers(row: WebhookDelivery) -> Headers:
    """Return the stored headers."""
    headers: Mapping[str, Sequence[str]] = json.loads(row.headers)
    return headers


def read_body(row: WebhookDelivery) -> bytes | None:
    """Return the body as received; None if the body was trimmed."""
    return zlib.decompress(row.body) if row.body != _NO_BODY else None


async def claim_delivery(session: AsyncSession, delivery: Delivery, now: datetime) -> int | None:
    """Insert the delivery and return the ID of its row; None if it is a duplicate of the last 7 days.

    Of concurrent duplicates one is inserted; the others wait for the end of its transaction.
    """
    pending = {**delivery.to_row(now), "is_first": True, "http_status": 0, "answer": ""}
    claimed = insert_if_absent(session, WebhookDelivery, pending).returning(WebhookDelivery.id)
    number: int | None = (await session.execute(claimed)).scalar_one_or_none()
    if number is None and await _delete_expired(session, pending["scope"], pending["delivery"], now):
        number = (await session.execute(claimed)).scalar_one_or_none()
    return number


async def _delete_expired(session: AsyncSession, scope: str, delivery: str, now: datetime) -> bool:
    """Delete the delivery with this ID if it is older than 7 days, and return True if it was."""
    # Account scope: the scope names one webhook.
    deleted = await session.execute(
        delete(WebhookDelivery)
        .where(
            WebhookDelivery.scope == scope,
            WebhookDelivery.delivery == delivery,
            WebhookDelivery.received_at < now - RETENTION,
        )
        .returning(WebhookDelivery.id)
    )
    return deleted.first() is not None


async def store_outcome(session: AsyncSession, number: int, outcome: Outcome) -> None:
    """Store the outcome, in the same transaction as the delivery."""
    # Account scope: the same transaction has inserted the delivery.
    await session.execute(
        update(WebhookDelivery)
        .where(WebhookDelivery.id == number)
        .values(
            http_status=outcome.http_status,
            answer=outcome.status,
            deployment_id=outcome.deployment_id,
            reason=outcome.reason,
            is_first=outcome.is_final,
        )
        .execution_options(synchronize_session=False)
    )


async def store_refused_delivery(
    session: AsyncSession, delivery: Delivery, problem: Problem, now: datetime
) -> None:
    """Store a refused delivery with the reason. It does not count for duplicates: sent again, it is processed again."""
    faults = "; ".join(f"{error.field} {error.message}" for error in problem.errors)
    values = {
        **delivery.to_row(now),
        "is_first": False,
        "http_status": problem.status,
        "answer": problem.slug,
        "reason": f"{problem.detail} {faults}".strip(),
    }
    await session.execute(insert(WebhookDelivery).values(values))


async def store_replayed_delivery(
    session: AsyncSession, delivery: Delivery, outcome: Outcome, now: datetime
) -> WebhookDelivery:
    """Store a replay of a delivery and its outcome."""
    row = WebhookDelivery(
        **delivery.to_row(now),
        is_first=False,
        http_status=outcome.http_status,
        answer=outcome.status,
        deployment_id=outcome.deployment_id,
        reason=outcome.reason,
    )
    session.add(row)
    await session.flush()
    return row


async def trim_bodies(session: AsyncSession, repository_id: int | None) -> None:
    """Delete the oldest bodies of a webhook beyond 64 MiB, with their headers. The rows stay, to recognize duplicates.
    `repository_id`: None for the webhook of the Git host's application."""
    # `== None` is `IS NULL` in SQL.
    mine = (WebhookDelivery.repository_id == repository_id) & (WebhookDelivery.body != _NO_BODY)
    size = func.sum(func.length(WebhookDelivery.body)).over(order_by=WebhookDelivery.id.desc())
    newest = select(WebhookDelivery.id, size.label("size")).where(mine).subquery()
    last = select(func.max(newest.c.id)).where(newest.c.size > MAX_STORED_BYTES)
    number = (await session.execute(last)).scalar_one()
    if number is None:
        return
    # Skip locked rows: another control plane is trimming these rows now.
    older = select(WebhookDelivery.id).where(mine, WebhookDelivery.id <= number)
    await session.execute(
        update(WebhookDelivery)
        .where(WebhookDelivery.id.in_(older.with_for_update(skip_locked=True)))
        .values(body=_NO_BODY, headers="{}")
        .execution_options(synchronize_session=False)
    )


async def delete_old_deliveries(session: AsyncSession, now: datetime) -> None:
    """Delete deliveries older than 7 days. Of deliveries about other repositories, keep only the newest of each scope:
    the webhook of an organization sends those of hundreds of repositories."""
    # Account scope: old deliveries of every account are cleaned up.
    await session.execute(delete(WebhookDelivery).where(WebhookDelivery.received_at < now - RETENTION))
    unrelated = WebhookDelivery.is_first.is_(False) & WebhookDelivery.answer.in_(("ignored", NotFound.slug))
    crowded = (
        select(WebhookDelivery.scope)
        .where(unrelated)
        .group_by(WebhookDelivery.scope)
        .having(func.count() > MAX_UNRELATED_DELIVERIES)
    )
    for scope in (await session.execute(crowded)).scalars().all():
        mine = unrelated & (WebhookDelivery.scope == scope)
        newest = select(WebhookDelivery.id).where(mine).order_by(WebhookDelivery.id.desc())
        last = (await session.execute(newest.offset(MAX_UNRELATED_DELIVERIES).limit(1))).scalar_one()
        await session.execute(delete(WebhookDelivery).where(mine, WebhookDelivery.id <= last))

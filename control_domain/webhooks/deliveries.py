"""The deliveries of the last 7 days: each once, with what it was answered."""

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.engine import insert_unless_there
from control_domain.refusals import Refused
from control_domain.tables.webhooks import WebhookDelivery
from control_domain.webhooks.outcome import Outcome
from git_hosts.interface import Headers
from pipeline_contracts.errors import NotFound, Problem

KEPT = timedelta(days=7)
MOST_OF_OTHERS = 1000
MOST_KEPT_BYTES = 64 * 2**20
"""Of the compressed bodies of one webhook."""
# Marks a trimmed body: even an empty body has compressed bytes.
_NO_BODY = b""
APP = "app"
"""The scope of the Git host's application."""
_SECRET = ("signature", "token", "authorization", "cookie", "secret")
_REDACTED = "[redacted]"
_LONGEST_EVENT = 100
# Fast: most of it is written, and hardly any of it read again.
_LEVEL = 1


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery as it came, of a repository or (None) of the Git host's application; its signature was good."""

    repository_id: int | None
    kind: str
    event: str
    headers: Headers = field(repr=False)
    body: bytes = field(repr=False)
    id: str | None = None
    """The host's; None: it gives none."""
    replay_of: int | None = None

    @property
    def scope(self) -> str:
        """Among whose deliveries its ID says which it is."""
        return APP if self.repository_id is None else str(self.repository_id)

    def to_row(self, now: datetime) -> dict[str, Any]:
        """The row of `webhook_deliveries`, without what it was answered."""
        return {
            "repository_id": self.repository_id,
            "scope": self.scope,
            # The same bytes are the same delivery, where nothing else tells.
            "delivery": self.id or f"sha256:{hashlib.sha256(self.body).hexdigest()}",
            "kind": self.kind,
            "event": self.event[:_LONGEST_EVENT],
            "headers": json.dumps(redact(self.headers)),
            "body": zlib.compress(self.body, _LEVEL),
            "replay_of": self.replay_of,
            "received_at": now,
        }


def redact(headers: Headers) -> dict[str, list[str]]:
    """The headers without what proves anything."""
    return {
        name: [_REDACTED] * len(values) if any(word in name for word in _SECRET) else list(values)
        for name, values in headers.items()
    }


def read_headers(row: WebhookDelivery) -> Headers:
    """The headers as they are kept."""
    kept: Mapping[str, Sequence[str]] = json.loads(row.headers)
    return kept


def read_body(row: WebhookDelivery) -> bytes | None:
    """Return the body as received; None if the body was trimmed."""
    return zlib.decompress(row.body) if row.body != _NO_BODY else None


async def claim(session: AsyncSession, delivery: Delivery, now: datetime) -> int | None:
    """The number of this delivery's row; None where it has come before, in the last 7 days.

    Of any number of the same at once one gets a number, the others wait for the end of its transaction.
    """
    pending = {**delivery.to_row(now), "is_first": True, "http_status": 0, "answer": ""}
    claimed = insert_unless_there(session, WebhookDelivery, pending).returning(WebhookDelivery.id)
    number: int | None = (await session.execute(claimed)).scalar_one_or_none()
    if number is None and await _forget_old(session, pending["scope"], pending["delivery"], now):
        number = (await session.execute(claimed)).scalar_one_or_none()
    return number


async def _forget_old(session: AsyncSession, scope: str, delivery: str, now: datetime) -> bool:
    """Whether the one with this ID was older than 7 days; then it is gone. `forget_deliveries` has not come by yet."""
    # Account scope: the scope names one webhook.
    forgotten = await session.execute(
        delete(WebhookDelivery)
        .where(
            WebhookDelivery.scope == scope,
            WebhookDelivery.delivery == delivery,
            WebhookDelivery.received_at < now - KEPT,
        )
        .returning(WebhookDelivery.id)
    )
    return forgotten.first() is not None


async def conclude(session: AsyncSession, number: int, outcome: Outcome) -> None:
    """Note in the same transaction what it has led to."""
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


async def note_refused(session: AsyncSession, delivery: Delivery, problem: Problem, now: datetime) -> None:
    """Keep for people what was refused, and why; when it comes again it is judged anew."""
    faults = "; ".join(f"{error.field} {error.message}" for error in problem.errors)
    values = {
        **delivery.to_row(now),
        "is_first": False,
        "http_status": problem.status,
        "answer": problem.slug,
        "reason": f"{problem.detail} {faults}".strip(),
    }
    await session.execute(insert(WebhookDelivery).values(values))


async def note_replayed(
    session: AsyncSession, delivery: Delivery, outcome: Outcome, now: datetime
) -> WebhookDelivery:
    """Keep what running a delivery again has led to."""
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


def not_kept(number: int) -> Refused:
    """The answer to who asks for a delivery that is not there any more, or never was."""
    return Refused(f"No delivery {number} is kept; `pharos webhooks list` shows those of the last 7 days.")


async def trim_bodies(session: AsyncSession, repository_id: int | None) -> None:
    """Delete the oldest bodies of a webhook beyond 64 MiB, with their headers. The rows stay, to recognize duplicates.
    `repository_id`: None for the webhook of the Git host's application."""
    # `== None` is `IS NULL` in SQL.
    mine = (WebhookDelivery.repository_id == repository_id) & (WebhookDelivery.body != _NO_BODY)
    size = func.sum(func.length(WebhookDelivery.body)).over(order_by=WebhookDelivery.id.desc())
    newest = select(WebhookDelivery.id, size.label("size")).where(mine).subquery()
    last = select(func.max(newest.c.id)).where(newest.c.size > MOST_KEPT_BYTES)
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


async def forget_deliveries(session: AsyncSession, now: datetime) -> None:
    """Remove what came more than 7 days ago, and of what is about other repositories all but the newest of each scope:
    the webhook of an organization tells of hundreds of them."""
    # Account scope: old deliveries of every account are cleaned up.
    await session.execute(delete(WebhookDelivery).where(WebhookDelivery.received_at < now - KEPT))
    of_others = WebhookDelivery.is_first.is_(False) & WebhookDelivery.answer.in_(("ignored", NotFound.slug))
    crowded = (
        select(WebhookDelivery.scope)
        .where(of_others)
        .group_by(WebhookDelivery.scope)
        .having(func.count() > MOST_OF_OTHERS)
    )
    for scope in (await session.execute(crowded)).scalars().all():
        mine = of_others & (WebhookDelivery.scope == scope)
        newest = select(WebhookDelivery.id).where(mine).order_by(WebhookDelivery.id.desc())
        last = (await session.execute(newest.offset(MOST_OF_OTHERS).limit(1))).scalar_one()
        await session.execute(delete(WebhookDelivery).where(mine, WebhookDelivery.id <= last))

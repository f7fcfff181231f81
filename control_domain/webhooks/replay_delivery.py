"""Processes a stored delivery again."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.audit import Actor, record_audit_entry
from control_domain.sealing import SealingKeys
from control_domain.tables.webhooks import WebhookDelivery
from control_domain.webhooks.deliveries import (
    Delivery,
    read_body,
    read_headers,
    store_replayed_delivery,
)
from control_domain.webhooks.receive_delivery import process_delivery
from pipeline_contracts.errors import Conflict, NotFound, PayloadNotUsable, RepositoryNotReady


class Replay(NamedTuple):
    """A delivery that was processed again."""

    delivery: WebhookDelivery
    removed_key_digests: Sequence[bytes]
    """Digests of the removed keys, to be revoked in the key directory after the commit."""


async def replay(
    session: AsyncSession,
    keys: SealingKeys,
    original: WebhookDelivery,
    caller: Caller,
    actor: Actor,
    now: datetime,
) -> Replay:
    """Process the delivery again for the caller, whose account has its repository. The replay does not count when
    duplicates are detected.

    Raises `Conflict` if its body is no longer stored, or if it cannot be processed now, and `DeployNotAllowed` if it
    would remove a preview that requires approvals and the caller may not remove it.
    """
    body = read_body(original)
    if body is None:
        raise Conflict(
            f"The body of delivery {original.id} was removed to make room for newer deliveries of the "
            "webhook, which keeps 64 MiB. Let the Git host deliver it again."
        )
    delivery = Delivery(
        original.repository_id,
        original.kind,
        original.event,
        read_headers(original),
        body,
        id=original.delivery,
        replay_of=original.id,
    )
    try:
        outcome = await process_delivery(session, delivery, keys, actor, now, caller)
    except (NotFound, PayloadNotUsable, RepositoryNotReady) as error:
        raise Conflict(f"The delivery cannot be processed now: {error.detail}") from error
    row = await store_replayed_delivery(session, delivery, outcome, now)
    details = {"delivery": original.id, "status": outcome.status}
    record_audit_entry(
        session, actor, caller.account.id, "webhook.replay", f"delivery {row.id}", now, details
    )
    return Replay(row, outcome.removed_key_digests)

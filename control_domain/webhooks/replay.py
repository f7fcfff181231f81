"""A delivery that is kept is run again, as if it had just come."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record
from control_domain.database.engine import Sessions
from control_domain.keys import forget_keys
from control_domain.refusals import Refused
from control_domain.sealing import SealingKeys
from control_domain.tables.projects import Project
from control_domain.tables.repositories import Repository
from control_domain.tables.webhooks import WebhookDelivery
from control_domain.webhooks.deliveries import Delivery, not_kept, note_replayed, read_body, read_headers
from control_domain.webhooks.receive import decide
from pipeline_contracts.errors import NotFound, PayloadNotUsable, RepositoryNotReady
from storage_backends.key_directory.interface import KeyDirectory


async def replay(
    sessions: Sessions,
    directory: KeyDirectory,
    keys: SealingKeys,
    delivery_id: int,
    actor: Actor,
    now: datetime,
) -> WebhookDelivery:
    """The row of the new delivery, which keeps no later one back. Raises `Refused` for a delivery that is not kept, and
    where nothing can be done with it now."""
    # Account scope: the operator's command names the delivery of any account.
    async with sessions() as session, session.begin():
        kept = await session.get(WebhookDelivery, delivery_id)
        if kept is None:
            raise not_kept(delivery_id)
        body = read_body(kept)
        if body is None:
            raise Refused(
                f"The body of delivery {kept.id} is not kept any more: it gave way to newer ones of the webhook, of "
                "which 64 MiB are kept. Let the Git host deliver it again."
            )
        delivery = Delivery(
            kept.repository_id,
            kept.kind,
            kept.event,
            read_headers(kept),
            body,
            id=kept.delivery,
            replay_of=kept.id,
        )
        try:
            outcome = await decide(session, delivery, keys, actor, now)
        except (NotFound, PayloadNotUsable, RepositoryNotReady) as error:
            raise Refused(f"It leads to nothing now: {error.detail}") from error
        row = await note_replayed(session, delivery, outcome, now)
        account_id = await _account_of(session, kept.repository_id)
        details = {"delivery": kept.id, "status": outcome.status}
        record(session, actor, account_id, "webhook.replay", f"delivery {row.id}", now, details)
    await forget_keys(directory, outcome.forget, {})
    return row


async def _account_of(session: AsyncSession, repository_id: int | None) -> int | None:
    # Account scope: this finds the account of a repository.
    query = (
        select(Project.account_id)
        .join(Repository, Repository.project_id == Project.id)
        .where(Repository.id == repository_id)
    )
    return (await session.execute(query)).scalar_one_or_none()

"""A delivery that is kept is run again, as if it had just come."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_api.audit.operations import Actor, record
from control_api.engines import Engines
from control_api.environments.removed_keys import forget_keys
from control_api.projects.tables import Project
from control_api.refusals import Refused
from control_api.repositories.tables import Repository
from control_api.webhooks.deliveries import Delivery, not_kept, note_replayed, read_body, read_headers
from control_api.webhooks.receive import decide
from control_api.webhooks.tables import WebhookDelivery
from pipeline_contracts.errors import NotFound, PayloadNotUsable, RepositoryNotReady


async def replay(engines: Engines, delivery_id: int, actor: Actor, now: datetime) -> WebhookDelivery:
    """The row of the new delivery, which keeps no later one back. Raises `Refused` for a delivery that is not kept, and
    where nothing can be done with it now."""
    async with engines.sessions() as session, session.begin():
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
            outcome = await decide(session, delivery, engines.sealing_keys(), actor, now)
        except (NotFound, PayloadNotUsable, RepositoryNotReady) as error:
            raise Refused(f"It leads to nothing now: {error.detail}") from error
        row = await note_replayed(session, delivery, outcome, now)
        account_id = await _account_of(session, kept.repository_id)
        details = {"delivery": kept.id, "status": outcome.status}
        record(session, actor, account_id, "webhook.replay", f"delivery {row.id}", now, details)
    await forget_keys(engines.directory, outcome.forget, {})
    return row


async def _account_of(session: AsyncSession, repository_id: int | None) -> int | None:
    query = (
        select(Project.account_id)
        .join(Repository, Repository.project_id == Project.id)
        .where(Repository.id == repository_id)
    )
    return (await session.execute(query)).scalar_one_or_none()

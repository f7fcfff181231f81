"""Processes a verified delivery once, in one transaction."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.audit import Actor
from control_domain.sealing import SealingKeys
from control_domain.webhooks.deliveries import Delivery, claim_delivery, store_outcome, store_refused_delivery
from control_domain.webhooks.installations import process_installation
from control_domain.webhooks.outcome import Outcome, ignored, merge_outcomes
from control_domain.webhooks.process_pull_request import process_pull_request
from control_domain.webhooks.process_push import process_push
from control_domain.webhooks.repository_identity import match_repository
from control_domain.webhooks.targets import Target, find_installed_targets, find_target
from git_hosts.all_hosts import HOSTS
from git_hosts.webhook_events import Ignored, Installation, Ping, PullRequest, Push
from pipeline_contracts.errors import NotFound, PayloadNotUsable, RepositoryNotReady


async def receive_delivery(
    session: AsyncSession, delivery: Delivery, keys: SealingKeys, actor: Actor, now: datetime
) -> Outcome:
    """Process the delivery and commit; the outcome is `duplicate` if it was received before. A refusal is stored.

    Raises `PayloadNotUsable`, `RepositoryNotReady` and `NotFound`.
    """
    try:
        return await _process_once(session, delivery, keys, actor, now)
    except (PayloadNotUsable, RepositoryNotReady, NotFound) as problem:
        await session.rollback()
        await store_refused_delivery(session, delivery, problem, now)
        await session.commit()
        raise


async def _process_once(
    session: AsyncSession, delivery: Delivery, keys: SealingKeys, actor: Actor, now: datetime
) -> Outcome:
    number = await claim_delivery(session, delivery, now)
    if number is None:
        return Outcome("duplicate")
    outcome = await process_delivery(session, delivery, keys, actor, now)
    await store_outcome(session, number, outcome)
    await session.commit()
    return outcome


async def process_delivery(
    session: AsyncSession,
    delivery: Delivery,
    keys: SealingKeys,
    actor: Actor,
    now: datetime,
    caller: Caller | None = None,
) -> Outcome:
    """Process the delivery, even if it was received before.

    `caller`: the person who replays it. Raises the errors of `receive_delivery`, and `DeployNotAllowed` if the caller
    may not do what the delivery leads to.
    """
    event = HOSTS[delivery.kind].webhooks.parse_event(delivery.event, delivery.body, delivery.headers)
    match event:
        case Ping():
            await _match_ping(session, delivery, event)
            return Outcome("pong")
        case Ignored():
            return ignored(event.reason)
        case Installation() if delivery.repository_id is None:
            return await process_installation(session, event, now)
        case Installation():
            return ignored(
                "Deliveries about installations belong to the webhook of the Git host's application."
            )
    if delivery.repository_id is not None:
        target = await find_target(session, delivery.repository_id)
        reason = await match_repository(session, target.repository, event.repository)
        if reason is not None:
            # The outcome is not final: the host may send the delivery again after an operator has set the repository's
            # host ID.
            return Outcome("ignored", reason=reason, is_final=False)
        return await _process_event(session, target, event, keys, actor, now, caller)
    targets = await find_installed_targets(session, event.installation, event.repository)
    return await _process_for_each(session, targets, event, keys, actor, now, caller)


async def _match_ping(session: AsyncSession, delivery: Delivery, ping: Ping) -> None:
    """Store the host's ID of the repository if the ping has it: hosts send a ping when a webhook is created."""
    if delivery.repository_id is not None and ping.repository is not None:
        target = await find_target(session, delivery.repository_id)
        await match_repository(session, target.repository, ping.repository)


async def _process_event(
    session: AsyncSession,
    target: Target,
    event: Push | PullRequest,
    keys: SealingKeys,
    actor: Actor,
    now: datetime,
    caller: Caller | None,
) -> Outcome:
    if isinstance(event, Push):
        return await process_push(session, target, event, actor, now)
    return await process_pull_request(session, target, event, keys, actor, now, caller)


async def _process_for_each(
    session: AsyncSession,
    targets: Sequence[Target],
    event: Push | PullRequest,
    keys: SealingKeys,
    actor: Actor,
    now: datetime,
    caller: Caller | None,
) -> Outcome:
    """Process the event for each project of the repository. A project that is not ready does not block the others."""
    outcomes = []
    for target in targets:
        try:
            async with session.begin_nested():
                outcomes.append(await _process_event(session, target, event, keys, actor, now, caller))
        except (RepositoryNotReady, NotFound) as error:
            outcomes.append(ignored(f"{target.project.slug}: {error.detail}"))
    return merge_outcomes(outcomes)

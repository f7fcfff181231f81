"""From a delivery whose signature was good to what it leads to, in one transaction and once."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor
from control_domain.sealing import SealingKeys
from control_domain.webhooks.deliveries import Delivery, claim, conclude, note_refused
from control_domain.webhooks.follow_pull_request import follow_pull_request
from control_domain.webhooks.follow_push import follow_push
from control_domain.webhooks.installations import follow_installation
from control_domain.webhooks.outcome import Outcome, ignored, sum_up
from control_domain.webhooks.recognize import recognize
from control_domain.webhooks.targets import Target, find_installed, find_target
from git_hosts.all_hosts import HOSTS
from git_hosts.webhook_events import Ignored, Installation, Ping, PullRequest, Push
from pipeline_contracts.errors import NotFound, PayloadNotUsable, RepositoryNotReady


async def receive(
    session: AsyncSession, delivery: Delivery, keys: SealingKeys, actor: Actor, now: datetime
) -> Outcome:
    """What the delivery leads to; `duplicate` where it has come before. All is committed, or where it is refused noted.

    Raises `PayloadNotUsable`, `RepositoryNotReady` and `NotFound`.
    """
    try:
        return await _receive(session, delivery, keys, actor, now)
    except (PayloadNotUsable, RepositoryNotReady, NotFound) as problem:
        await session.rollback()
        await note_refused(session, delivery, problem, now)
        await session.commit()
        raise


async def _receive(
    session: AsyncSession, delivery: Delivery, keys: SealingKeys, actor: Actor, now: datetime
) -> Outcome:
    number = await claim(session, delivery, now)
    if number is None:
        return Outcome("duplicate")
    outcome = await decide(session, delivery, keys, actor, now)
    await conclude(session, number, outcome)
    await session.commit()
    return outcome


async def decide(
    session: AsyncSession, delivery: Delivery, keys: SealingKeys, actor: Actor, now: datetime
) -> Outcome:
    """What the delivery leads to, whether or not it has come before. Raises what `receive` raises."""
    notice = HOSTS[delivery.kind].webhooks.parse_event(delivery.event, delivery.body, delivery.headers)
    match notice:
        case Ping():
            await _learn_from(session, delivery, notice)
            return Outcome("pong")
        case Ignored():
            return ignored(notice.reason)
        case Installation() if delivery.repository_id is None:
            return await follow_installation(session, notice, now)
        case Installation():
            return ignored("Installations are told to the webhook of the Git host's application.")
    if delivery.repository_id is not None:
        target = await find_target(session, delivery.repository_id)
        reason = await recognize(session, target.repository, notice.repository)
        if reason is not None:
            # Once an operator has said that it is the same after all, the host may send it again.
            return Outcome("ignored", reason=reason, is_final=False)
        return await _follow(session, target, notice, keys, actor, now)
    targets = await find_installed(session, notice.installation, notice.repository)
    return await _follow_each(session, targets, notice, keys, actor, now)


async def _learn_from(session: AsyncSession, delivery: Delivery, ping: Ping) -> None:
    """Whose webhook it is, if that can be told; a host sends its ping as the webhook is made."""
    if delivery.repository_id is not None and ping.repository is not None:
        target = await find_target(session, delivery.repository_id)
        await recognize(session, target.repository, ping.repository)


async def _follow(
    session: AsyncSession,
    target: Target,
    notice: Push | PullRequest,
    keys: SealingKeys,
    actor: Actor,
    now: datetime,
) -> Outcome:
    if isinstance(notice, Push):
        return await follow_push(session, target, notice, actor, now)
    return await follow_pull_request(session, target, notice, keys, actor, now)


async def _follow_each(
    session: AsyncSession,
    targets: Sequence[Target],
    notice: Push | PullRequest,
    keys: SealingKeys,
    actor: Actor,
    now: datetime,
) -> Outcome:
    """Of several projects that are deployed from one repository, one that is not ready holds none of the others up."""
    outcomes = []
    for target in targets:
        try:
            async with session.begin_nested():
                outcomes.append(await _follow(session, target, notice, keys, actor, now))
        except (RepositoryNotReady, NotFound) as error:
            outcomes.append(ignored(f"{target.project.slug}: {error.detail}"))
    return sum_up(outcomes)

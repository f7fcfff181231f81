"""Lists, creates, changes and removes notification channels for people, with audit entries."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.removed_recipients import cancel_messages, remove_from_rules
from control_domain.audit import Actor, record_audit_entry
from control_domain.database.public_ids import matches_id
from control_domain.database.statements import lock_row
from control_domain.notifications.channel_destination import change_destination
from control_domain.notifications.channel_secrets import seal_secrets
from control_domain.notifications.channel_types import check_channel, new_signing_secret
from control_domain.notifications.limits import MAX_CHANNELS, check_number
from control_domain.notifications.quiet_hours import QuietHours, check_quiet_hours, write_quiet_hours
from control_domain.notifications.wake_groups import look_at_groups, wake_groups
from control_domain.paging import Page
from control_domain.sealing import SealingKeys
from control_domain.slugs import check_name
from control_domain.tables.accounts import Account
from control_domain.tables.notifications import (
    NotificationChannel,
    NotificationGroup,
)
from pipeline_contracts.errors import Conflict, NameTaken, NotFound, invalid_field
from pipeline_contracts.identifiers import make_identifier
from pipeline_contracts.times import to_epoch_ms

UnavailableTypes = Mapping[str, str]
"""Types through which this installation cannot send, each with the reason and the settings to change."""


@dataclass(frozen=True, slots=True)
class ChannelFields:
    """The fields of a channel that people set. None leaves a field unchanged, or is the default of a new channel."""

    name: str | None = None
    settings: Mapping[str, str] | None = None
    secrets: Mapping[str, str] | None = field(default=None, repr=False)
    """Only the secrets to set; an empty text removes an optional secret."""
    quiet_hours: QuietHours | None = None
    clears_quiet_hours: bool = False
    enabled: bool | None = None


async def find_channel(session: AsyncSession, caller: Caller, number_or_id: str) -> NotificationChannel:
    """Return the channel of the caller's account with this number or public ID. Raises `NotFound`."""
    table = NotificationChannel
    query = select(table).where(
        table.account_id == caller.account.id, matches_id(table.id, table.public_id, number_or_id)
    )
    channel = (await session.execute(query)).scalar_one_or_none()
    if channel is None:
        raise NotFound("The account has no such channel.")
    return channel


async def list_channels(
    session: AsyncSession, account: Account, page: Page
) -> tuple[Sequence[NotificationChannel], bool]:
    """Return a page of the channels, the newest first, and whether more follow."""
    query = select(NotificationChannel).where(NotificationChannel.account_id == account.id)
    if page.before is not None:
        query = query.where(NotificationChannel.id < page.before)
    rows = (await session.scalars(query.order_by(NotificationChannel.id.desc()).limit(page.limit + 1))).all()
    return rows[: page.limit], len(rows) > page.limit


async def add_channel(
    session: AsyncSession,
    account: Account,
    type_name: str,
    fields: ChannelFields,
    keys: SealingKeys,
    unavailable: UnavailableTypes,
    actor: Actor,
    now: datetime,
) -> tuple[NotificationChannel, str | None]:
    """Create a channel. Return it, and the signing secret if one was made for it.

    Raises `InvalidInput`, `NameTaken`, and `Conflict` if the account has too many channels.
    """
    secrets = dict(fields.secrets or {})
    made = None
    if type_name == "webhook" and not secrets.get("signing_secret"):
        made = secrets["signing_secret"] = new_signing_secret()
    name = check_name(fields.name or "")
    settings, secrets = check_channel(type_name, fields.settings or {}, secrets)
    if type_name in unavailable:
        raise invalid_field("type", f"cannot be used yet: {unavailable[type_name].rstrip('.')}")
    if fields.quiet_hours is not None:
        check_quiet_hours(fields.quiet_hours)
    of_account = select(NotificationChannel).where(NotificationChannel.account_id == account.id)
    await check_number(session, of_account, MAX_CHANNELS, "channels")
    channel = NotificationChannel(
        public_id=make_identifier("chn", to_epoch_ms(now)),
        account_id=account.id,
        name=name,
        type=type_name,
        settings=json.dumps(settings),
        quiet_hours=write_quiet_hours(fields.quiet_hours),
        enabled=fields.enabled is not False,
        created_at=now,
    )
    seal_secrets(channel, secrets, keys)
    try:
        async with session.begin_nested():
            session.add(channel)
    except IntegrityError:
        raise _name_taken(name) from None
    details = {"name": name, "type": type_name, "settings": settings, "secrets": sorted(secrets)}
    _record(session, channel, "create", details, actor, now)
    return channel, made


async def lock_channel(session: AsyncSession, channel: NotificationChannel) -> None:
    """Lock the channel and read it again. Raises `NotFound` if it was removed meanwhile."""
    is_channel = (NotificationChannel.id == channel.id, NotificationChannel.account_id == channel.account_id)
    if not await lock_row(session, NotificationChannel.created_at, *is_channel):
        raise NotFound("The account has no such channel.")
    await session.refresh(channel)


async def update_channel(
    session: AsyncSession,
    channel: NotificationChannel,
    fields: ChannelFields,
    keys: SealingKeys,
    actor: Actor,
    now: datetime,
) -> None:
    """Change the locked channel. A new address or secret clears `failing_since`, because the channel may work again.

    Raises `InvalidInput`, `NameTaken`, and `CannotOpen` if a secret changes and the others cannot be read.
    """
    before = _describe_settings(channel)
    name = channel.name if fields.name is None else check_name(fields.name)
    if fields.settings or fields.secrets:
        change_destination(channel, fields.settings or {}, fields.secrets or {}, keys)
    if fields.settings or fields.secrets or fields.enabled:
        channel.failing_since = channel.last_error = None
    if fields.quiet_hours is not None:
        check_quiet_hours(fields.quiet_hours)
    if fields.quiet_hours is not None or fields.clears_quiet_hours:
        channel.quiet_hours = write_quiet_hours(fields.quiet_hours)
        await wake_groups(session, channel.account_id, now, NotificationGroup.channel_id == channel.id)
    if fields.enabled is not None:
        if fields.enabled and not channel.enabled:
            # Incidents of the groups may have ended while the channel was turned off.
            await look_at_groups(session, channel.id, now)
        channel.enabled = fields.enabled
    try:
        async with session.begin_nested():
            channel.name = name
            await session.flush()
    except IntegrityError:
        raise _name_taken(name) from None
    after = {**_describe_settings(channel), "name": name}
    changed = {
        key: {"from": before[key], "to": value} for key, value in after.items() if value != before[key]
    }
    given = {"secrets": sorted(fields.secrets)} if fields.secrets else {}
    if changed or given:
        _record(session, channel, "set", {**changed, **given}, actor, now)


async def delete_channel(
    session: AsyncSession, channel: NotificationChannel, actor: Actor, now: datetime
) -> int:
    """Remove the locked channel, also from all rules, and cancel its unsent notifications. Return the number of rules
    that named it. Sent notifications stay listed."""
    # On Postgres, an insert that refers to the channel waits for FOR UPDATE.
    of_channel = (NotificationChannel.id == channel.id, NotificationChannel.account_id == channel.account_id)
    await session.execute(select(NotificationChannel.id).where(*of_channel).with_for_update())
    rules = await remove_from_rules(session, channel.account_id, "channel", channel.id)
    await cancel_messages(session, channel.account_id, "channel", channel.id, "The channel was removed.")
    await session.execute(
        delete(NotificationChannel).where(*of_channel).execution_options(synchronize_session=False)
    )
    _record(session, channel, "remove", {"name": channel.name, "rules": rules}, actor, now)
    return rules


def check_can_send(channel: NotificationChannel, unavailable: UnavailableTypes) -> None:
    """Raise `Conflict` unless the channel is on, and of a type through which this installation can send."""
    if not channel.enabled:
        raise Conflict(f"The channel {channel.name} is turned off: turn it on first.")
    if channel.type in unavailable:
        raise Conflict(unavailable[channel.type])


def _describe_settings(channel: NotificationChannel) -> dict[str, Any]:
    return {
        "name": channel.name,
        "settings": json.loads(channel.settings),
        "quiet_hours": None if channel.quiet_hours is None else json.loads(channel.quiet_hours),
        "enabled": channel.enabled,
    }


def _record(
    session: AsyncSession,
    channel: NotificationChannel,
    verb: str,
    details: Mapping[str, Any],
    actor: Actor,
    now: datetime,
) -> None:
    subject = f"notification-channel {channel.public_id}"
    record_audit_entry(
        session, actor, channel.account_id, f"notification-channel.{verb}", subject, now, details
    )


def _name_taken(name: str) -> NameTaken:
    return NameTaken(f"The account has a channel with the name {name!r} already.")

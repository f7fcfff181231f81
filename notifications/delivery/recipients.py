"""Finds the channel or the e-mail address of a recipient when a message is sent."""

from dataclasses import dataclass

import msgspec
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.roles import Right, is_allowed, sees_all_projects
from control_domain.sealing import Sealed, SealingKeys
from control_domain.tables.accounts import Membership, Person
from control_domain.tables.notifications import Notification, NotificationChannel
from control_domain.tables.projects import ProjectRole
from notifications.channels.interface import Destination


class NoRecipient(Exception):
    """The recipient was removed or turned off, or no longer has access. The text is for people."""


@dataclass(frozen=True, slots=True)
class Address:
    """The destination of a message. Its secrets are still encrypted."""

    type: str
    settings: str
    """The settings of the destination as JSON."""
    sealed: Sealed | None = None
    owner: str = ""
    """Identifies the object to which the encrypted secrets belong."""
    is_failing: bool = False
    """True if the last delivery to this channel failed."""


async def find_address(session: AsyncSession, notification: Notification) -> Address:
    """Return where to send the notification. Raises `NoRecipient`."""
    if notification.channel_id is not None:
        return _read_channel(await session.get(NotificationChannel, notification.channel_id))
    return await _find_email(session, notification)


def _read_channel(channel: NotificationChannel | None) -> Address:
    if channel is None:
        raise NoRecipient("The channel was removed.")
    if not channel.enabled:
        raise NoRecipient("The channel is turned off.")
    sealed = None
    if channel.sealed is not None and channel.sealing_key_id is not None:
        sealed = Sealed(channel.sealing_key_id, channel.sealed)
    is_failing = channel.failing_since is not None or channel.last_error is not None
    return Address(channel.type, channel.settings, sealed, channel.public_id, is_failing)


async def _find_email(session: AsyncSession, notification: Notification) -> Address:
    """Return the e-mail address of the person. Raises `NoRecipient` if the person no longer has access: somebody
    may have removed the person after the notification was written."""
    query = (
        select(Person.email, Membership.role, ProjectRole.role)
        .join(
            Membership,
            (Membership.person_id == Person.id) & (Membership.account_id == notification.account_id),
        )
        .outerjoin(
            ProjectRole,
            (ProjectRole.person_id == Person.id) & (ProjectRole.project_id == notification.project_id),
        )
        .where(Person.id == notification.person_id)
    )
    found = (await session.execute(query)).one_or_none()
    if found is None:
        raise NoRecipient("The person is no longer a member of the account.")
    email, role, project_role = found
    if notification.project_id is None:
        if not sees_all_projects(role):
            raise NoRecipient("The person is no longer an owner or admin of the account.")
    elif not is_allowed(role, project_role, Right.READ):
        raise NoRecipient("The person no longer has a role in the project.")
    return Address("email", msgspec.json.encode({"address": email}).decode())


def open_address(address: Address, keys: SealingKeys) -> Destination:
    """Return the destination with its secrets decrypted. Raises `CannotOpen`."""
    secrets = {} if address.sealed is None else keys.open(address.sealed, address.owner)
    return Destination(address.type, msgspec.json.decode(address.settings), secrets)

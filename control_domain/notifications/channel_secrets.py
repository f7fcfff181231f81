"""The sealed secrets of channels."""

from collections.abc import Mapping

from control_domain.sealing import Sealed, SealingKeys
from control_domain.tables.notifications import NotificationChannel


def seal_secrets(channel: NotificationChannel, secrets: Mapping[str, str], keys: SealingKeys) -> None:
    """Replace the secrets of the channel."""
    if not secrets:
        channel.sealing_key_id = channel.sealed = None
        return
    sealed = keys.seal(secrets, channel.public_id)
    channel.sealing_key_id, channel.sealed = sealed.key_id, sealed.data


def open_secrets(channel: NotificationChannel, keys: SealingKeys) -> dict[str, str]:
    """Return the secrets of the channel. Raises `CannotOpen`."""
    if channel.sealed is None or channel.sealing_key_id is None:
        return {}
    return keys.open(Sealed(channel.sealing_key_id, channel.sealed), channel.public_id)

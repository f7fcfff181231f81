"""Changes where a channel sends: its settings and its secrets."""

import json
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from control_domain.notifications.channel_secrets import open_secrets, seal_secrets
from control_domain.notifications.channel_types import CHANNEL_TYPES, check_channel
from control_domain.sealing import CannotOpen, SealingKeys
from control_domain.tables.notifications import NotificationChannel
from pipeline_contracts.errors import FieldError, InvalidInput, invalid_fields

_NEVER_SENT = frozenset({"signing_secret"})
_DEFAULT_PORTS = {"http": 80, "https": 443}


def change_destination(
    channel: NotificationChannel,
    settings: Mapping[str, str],
    secrets: Mapping[str, str],
    keys: SealingKeys,
) -> None:
    """Merge these values into those of the channel; an empty text removes an optional value.

    If a changed address leads to another server, the secrets that are sent there must be given again: otherwise
    anybody who can change the address could have the secrets sent to their own server. Secrets that cannot be opened
    are replaced by the given ones if these are complete.

    Raises `InvalidInput`, and `CannotOpen` if other secrets are needed and cannot be read.
    """
    before = json.loads(channel.settings)
    after = {**before, **settings}
    try:
        present = open_secrets(channel, keys)
    except CannotOpen:
        present = {}
        try:
            checked = check_channel(channel.type, after, secrets)
        except InvalidInput as error:
            raise CannotOpen("other secrets of the channel are sealed with a key that is missing") from error
    else:
        checked = check_channel(channel.type, after, {**present, **secrets})
        moved = sorted(
            set(_list_origins(channel.type, before)) ^ set(_list_origins(channel.type, checked[0]))
        )
        missing = [name for name in present if name not in secrets and name not in _NEVER_SENT]
        if moved and missing:
            reason = f"must be given again, as settings.{moved[0][0]} leads to another server"
            raise invalid_fields([FieldError(f"secrets.{name}", reason) for name in sorted(missing)])
    channel.settings = json.dumps(checked[0])
    if checked[1] != present:
        seal_secrets(channel, checked[1], keys)


def _list_origins(
    type_name: str, settings: Mapping[str, str]
) -> Iterator[tuple[str, str, str | None, int | None]]:
    """Return each setting that is a URL, with the scheme, the host and the port to which it leads."""
    for field in CHANNEL_TYPES[type_name].list_fields():
        if field.format == "http-url" and not field.is_secret:
            parts = urlsplit(settings.get(field.name, field.default))
            port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
            yield field.name, parts.scheme, parts.hostname, port

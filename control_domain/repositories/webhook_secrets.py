"""The secrets of repositories' webhooks: makes, checks, seals and opens them."""

import re
import secrets
from base64 import b64encode
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.sealing import Sealed, SealingKeys
from control_domain.tables.repositories import Repository
from control_domain.tables.webhooks import SealedWebhookSecret
from git_hosts.all_hosts import HOSTS
from git_hosts.signatures import SIGNING_PREFIX, decode_signing_key
from git_hosts.webhook_events import SecretKind, WebhookSecret
from pipeline_contracts.errors import FieldError, InvalidInput, invalid_field

_SECRET_BYTES = 32
_MIN_LENGTH, _MAX_LENGTH = 16, 255
_PRINTABLE = re.compile(rf"[\x21-\x7e]{{{_MIN_LENGTH},{_MAX_LENGTH}}}")
_MEMBER = "secret"
_INVALID = "Nothing was changed. Fix the fields listed below and send the request again."


def has_webhook(kind: str) -> bool:
    """Return True if Pharos understands the webhooks of this kind of repository."""
    return kind in HOSTS


def make_secret(kind: str, *, plain: bool = False) -> WebhookSecret:
    """Make a new secret of 256 bits for a repository of a kind that has webhooks. `plain`: for a GitLab that cannot
    sign."""
    secret_kind: SecretKind = "plain" if plain else HOSTS[kind].secret_kind
    if secret_kind == "signing":
        return WebhookSecret(
            "signing", SIGNING_PREFIX + b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()
        )
    return WebhookSecret(secret_kind, secrets.token_urlsafe(_SECRET_BYTES))


def choose_secret(kind: str, value: str | None, secret_kind: SecretKind | None) -> WebhookSecret | None:
    """Return the secret for a webhook of this kind of repository: `value`, or a new secret. None if the kind has no
    webhook.

    `secret_kind` None means the default of the host. Raises `InvalidInput`, which does not repeat the secret.
    """
    host = HOSTS.get(kind)
    if host is None:
        errors = [
            FieldError(name, f"must be left out: a repository of the kind {kind} has no webhook")
            for name, given in (("secret", value), ("secret_kind", secret_kind))
            if given is not None
        ]
        if errors:
            raise InvalidInput(_INVALID, errors=errors)
        return None
    chosen = secret_kind or host.secret_kind
    allowed = (host.secret_kind, "plain") if host.has_plain_secrets else (host.secret_kind,)
    if chosen not in allowed:
        raise invalid_field("secret_kind", f"must be {' or '.join(allowed)} for a webhook of {kind}")
    if value is None:
        return make_secret(kind, plain=chosen == "plain")
    if chosen == "signing" and decode_signing_key(value) is None:
        raise invalid_field(
            "secret",
            f"must be a signing token of GitLab, which is {SIGNING_PREFIX} and the base64 of 24 to 64 bytes; a secret "
            "token is of the secret_kind plain",
        )
    if _PRINTABLE.fullmatch(value) is None:
        raise invalid_field(
            "secret", f"must be {_MIN_LENGTH} to {_MAX_LENGTH} printable ASCII characters without blanks"
        )
    return WebhookSecret(chosen, value)


def replace_secret_kind(
    kind: str, present: str | None, value: str | None, secret_kind: SecretKind | None
) -> WebhookSecret:
    """Return the secret that replaces a secret of the kind `present`, for a repository with a webhook.

    The kind stays, because the host may not support signing tokens, unless `secret_kind` names another kind or `value`
    is a signing token. Raises `InvalidInput`.
    """
    if secret_kind is None and present == "plain" and (value is None or decode_signing_key(value) is None):
        secret_kind = "plain"
    secret = choose_secret(kind, value, secret_kind)
    assert secret is not None
    return secret


async def set_secret(
    session: AsyncSession, keys: SealingKeys, repository: Repository, secret: WebhookSecret, now: datetime
) -> None:
    """Store the secret, which replaces the former one at once."""
    sealed = keys.seal({_MEMBER: secret.value}, secret_owner(repository.id))
    row = await session.get(SealedWebhookSecret, repository.id)
    if row is None:
        row = SealedWebhookSecret(repository_id=repository.id)
        session.add(row)
    row.kind, row.key_id, row.sealed, row.created_at = secret.kind, sealed.key_id, sealed.data, now
    await session.flush()


def open_secret(keys: SealingKeys, row: SealedWebhookSecret) -> WebhookSecret:
    """Return the secret in a row. Raises `CannotOpen`."""
    opened = keys.open(Sealed(row.key_id, row.sealed), secret_owner(row.repository_id))
    kind: SecretKind = row.kind  # type: ignore[assignment]
    return WebhookSecret(kind, opened[_MEMBER])


def secret_owner(repository_id: int) -> str:
    """Return the owner that the secret is sealed for: it cannot be opened for any other repository."""
    return f"webhook of repository {repository_id}"

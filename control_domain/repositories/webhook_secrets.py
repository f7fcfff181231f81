"""The secrets of repositories' webhooks: made, taken from a host that makes its own, sealed, opened."""

import re
import secrets
from base64 import b64encode
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.refusals import Refused
from control_domain.sealing import Sealed, SealingKeys
from control_domain.tables.repositories import Repository
from control_domain.tables.webhooks import SealedWebhookSecret
from git_hosts.all_hosts import HOSTS
from git_hosts.signatures import SIGNING_PREFIX, decode_signing_key
from git_hosts.webhook_events import SecretKind, WebhookSecret

_SECRET_BYTES = 32
_SHORTEST, _LONGEST = 16, 255
_PRINTABLE = re.compile(rf"[\x21-\x7e]{{{_SHORTEST},{_LONGEST}}}")
_MEMBER = "secret"


def has_webhook(kind: str) -> bool:
    """Return True if Pharos understands the webhooks of this kind of repository."""
    return kind in HOSTS


def make_secret(kind: str, *, plain: bool = False) -> WebhookSecret:
    """A new secret of 256 bits for a repository of this kind. `plain`: for a GitLab that signs nothing yet."""
    secret_kind = _secret_kind(kind, plain)
    if secret_kind == "signing":
        return WebhookSecret(
            "signing", SIGNING_PREFIX + b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()
        )
    return WebhookSecret(secret_kind, secrets.token_urlsafe(_SECRET_BYTES))


def read_secret(kind: str, given: str, *, plain: bool = False) -> WebhookSecret:
    """The secret that the host has made. Raises `Refused`, which does not repeat it."""
    secret_kind = _secret_kind(kind, plain)
    if secret_kind == "signing" and decode_signing_key(given) is None:
        raise Refused(
            f"GitLab's signing token is {SIGNING_PREFIX} and the base64 of 24 to 64 bytes. Where your GitLab has only "
            "a secret token, say so with --plain-secret."
        )
    if _PRINTABLE.fullmatch(given) is None:
        raise Refused(
            f"A webhook's secret has {_SHORTEST} to {_LONGEST} printable ASCII characters without blanks."
        )
    return WebhookSecret(secret_kind, given)


def _secret_kind(kind: str, plain: bool) -> SecretKind:
    host = HOSTS.get(kind)
    if host is None:
        *first, last = HOSTS
        raise Refused(
            f"A repository of the kind {kind} has no webhook: connect it with --kind {', '.join(first)} or {last}."
        )
    if plain and not host.has_plain_secrets:
        raise Refused(f"A webhook of {kind} is always signed: leave --plain-secret out.")
    return "plain" if plain else host.secret_kind


async def set_secret(
    session: AsyncSession, keys: SealingKeys, repository: Repository, secret: WebhookSecret, now: datetime
) -> None:
    """Check the repository's webhooks with this secret from now on, and with no other."""
    sealed = keys.seal({_MEMBER: secret.value}, sealed_for(repository.id))
    row = await session.get(SealedWebhookSecret, repository.id)
    if row is None:
        row = SealedWebhookSecret(repository_id=repository.id)
        session.add(row)
    row.kind, row.key_id, row.sealed, row.created_at = secret.kind, sealed.key_id, sealed.data, now
    await session.flush()


def open_secret(keys: SealingKeys, row: SealedWebhookSecret) -> WebhookSecret:
    """What a row holds. Raises `CannotOpen`."""
    opened = keys.open(Sealed(row.key_id, row.sealed), sealed_for(row.repository_id))
    kind: SecretKind = row.kind  # type: ignore[assignment]
    return WebhookSecret(kind, opened[_MEMBER])


def sealed_for(repository_id: int) -> str:
    """Whose secret it is: for another repository it does not open."""
    return f"webhook of repository {repository_id}"

"""The secrets of repositories' webhooks: made, taken from a host that makes its own, sealed, opened."""

import binascii
import re
import secrets
from base64 import b64decode, b64encode
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from control_api.refusals import Refused
from control_api.repositories.tables import Repository
from control_api.variables.sealing import Sealed, SealingKeys
from control_api.webhooks.notices import SecretKind, WebhookSecret
from control_api.webhooks.tables import SealedWebhookSecret

SIGNING_PREFIX = "whsec_"
_KINDS: dict[str, SecretKind] = {"github": "hmac", "gitlab": "signing", "bitbucket": "hmac"}
_SECRET_BYTES = 32
_SHORTEST, _LONGEST = 16, 255
# Standard Webhooks 1.0: a key has 24 to 64 bytes.
_SIGNING_BYTES = range(24, 65)
_PRINTABLE = re.compile(rf"[\x21-\x7e]{{{_SHORTEST},{_LONGEST}}}")
_MEMBER = "secret"


def has_webhook(kind: str) -> bool:
    """Whether webhooks of this kind of repository are understood."""
    return kind in _KINDS


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
    if secret_kind == "signing" and signing_key(given) is None:
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
    if kind not in _KINDS:
        raise Refused(
            f"A repository of the kind {kind} has no webhook: connect it with --kind github, gitlab or bitbucket."
        )
    if plain and kind != "gitlab":
        raise Refused(f"A webhook of {kind} is always signed: leave --plain-secret out.")
    return "plain" if plain else _KINDS[kind]


def signing_key(token: str) -> bytes | None:
    """The bytes that a signing token stands for; None for what is none."""
    if not token.startswith(SIGNING_PREFIX):
        return None
    try:
        key = b64decode(token.removeprefix(SIGNING_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) in _SIGNING_BYTES else None


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

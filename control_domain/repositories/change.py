"""Changes the settings of connected repositories and the secrets of their webhooks, with their audit entries."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from msgspec import UNSET, UnsetType
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.repositories.connect import BRANCH_RULE
from control_domain.repositories.find import FoundRepository
from control_domain.repositories.webhook_secrets import has_webhook, replace_secret_kind, set_secret
from control_domain.sealing import SealingKeys
from git_hosts.all_hosts import HOSTS
from git_hosts.webhook_events import SecretKind, WebhookSecret
from pipeline_contracts.errors import Conflict, FieldError, InvalidInput
from pipeline_contracts.git_refs import is_ref


@dataclass(frozen=True, slots=True)
class RepositoryChanges:
    """The settings that change. None, or `UNSET`, leaves a setting unchanged."""

    branch: str | None = None
    push_deploys: bool | None = None
    forks: bool | None = None
    host_id: str | None | UnsetType = UNSET
    """None lets the next delivery set it."""


async def change_repository(
    session: AsyncSession, found: FoundRepository, changes: RepositoryChanges, actor: Actor, now: datetime
) -> None:
    """Change settings of the locked repository. Raises `InvalidInput`, and `Conflict` for settings of a webhook if it
    has none."""
    repository = found.repository
    _check(repository.kind, changes)
    if changes.branch is not None and changes.branch != repository.branch:
        details: Mapping[str, Any] = {"from": repository.branch, "to": changes.branch}
        repository.branch = changes.branch
        _record(session, found, "repository.branch", details, actor, now)
    columns = {"push_deploys": "push_deploys", "forks": "allows_forks", "host_id": "host_id"}
    details = {}
    for name, value in _webhook_settings(changes).items():
        former = getattr(repository, columns[name])
        if value != former:
            setattr(repository, columns[name], value)
            details = {**details, name: {"from": former, "to": value}}
    if details:
        _record(session, found, "repository.set", details, actor, now)
    await session.flush()


def _webhook_settings(changes: RepositoryChanges) -> dict[str, Any]:
    """Return the settings of the webhook that are given."""
    switches = {"push_deploys": changes.push_deploys, "forks": changes.forks}
    given: dict[str, Any] = {name: value for name, value in switches.items() if value is not None}
    return given if changes.host_id is UNSET else {**given, "host_id": changes.host_id}


def _check(kind: str, changes: RepositoryChanges) -> None:
    errors: list[FieldError] = []
    if changes.branch is not None and not is_ref(changes.branch):
        errors.append(FieldError("branch", BRANCH_RULE))
    host = HOSTS.get(kind)
    host_id = changes.host_id
    # An ID that is not a repository's, such as the ID of a delivery, would not match any push.
    if host is not None and isinstance(host_id, str) and host.repository_id.fullmatch(host_id) is None:
        errors.append(
            FieldError(
                "host_id", f"must be the ID of a repository at {kind}, which is {host.repository_id_format}"
            )
        )
    if errors:
        raise InvalidInput(
            "Nothing was changed. Fix the fields listed below and send the request again.", errors=errors
        )
    if host is None and _webhook_settings(changes):
        raise Conflict(f"A repository of the kind {kind} has no webhook, so only its branch can be changed.")


async def renew_secret(
    session: AsyncSession,
    keys: SealingKeys,
    found: FoundRepository,
    secret: str | None,
    secret_kind: SecretKind | None,
    actor: Actor,
    now: datetime,
) -> tuple[FoundRepository, WebhookSecret]:
    """Replace the secret with which the locked repository's deliveries are verified, by the given or a random one.
    Return the repository and the secret.

    Raises `InvalidInput`, and `Conflict` if the repository has no webhook.
    """
    kind = found.repository.kind
    if not has_webhook(kind):
        raise Conflict(f"A repository of the kind {kind} has no webhook.")
    chosen = replace_secret_kind(kind, found.secret_kind, secret, secret_kind)
    await set_secret(session, keys, found.repository, chosen, now)
    _record(session, found, "repository.secret", {"kind": chosen.kind}, actor, now)
    return found._replace(secret_kind=chosen.kind), chosen


def _record(
    session: AsyncSession,
    found: FoundRepository,
    action: str,
    details: Mapping[str, Any],
    actor: Actor,
    now: datetime,
) -> None:
    subject = f"repository {found.repository.id}"
    record_audit_entry(session, actor, found.project.account_id, action, subject, now, details)

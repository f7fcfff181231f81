"""Webhook events about installations of a GitHub App."""

from typing import Literal

from msgspec.json import Decoder

from git_hosts.payloads.request import decode
from git_hosts.payloads.values import (
    InstallationNumber,
    NumericRepositoryId,
    Payload,
    clean_name,
    payload_error,
    read_full_name,
    read_host_id,
)
from git_hosts.webhook_events import HostedRepository, Ignored, Installation, WebhookEvent

_CHANGES: dict[str, Literal["created", "deleted", "suspended", "unsuspended"]] = {
    "created": "created",
    "deleted": "deleted",
    "suspend": "suspended",
    "unsuspend": "unsuspended",
}


class _Action(Payload):
    action: str


class _Account(Payload):
    login: str


class _Installation(Payload):
    id: InstallationNumber
    account: _Account


class _Repository(Payload):
    full_name: str
    id: NumericRepositoryId | None = None


class _InstallationEvent(Payload):
    installation: _Installation
    repositories: list[_Repository] | None = None


class _RepositoriesEvent(Payload):
    installation: _Installation
    repositories_added: list[_Repository]
    repositories_removed: list[_Repository]


_ACTION = Decoder(_Action)
_INSTALLATION = Decoder(_InstallationEvent)
_REPOSITORIES = Decoder(_RepositoriesEvent)


def read_installation(json: bytes) -> WebhookEvent:
    """Parse the event `installation`. Raises `PayloadNotUsable`."""
    change = _CHANGES.get(decode(_ACTION, json).action)
    if change is None:
        return Ignored("Pharos follows only the creation, deletion and suspension of installations.")
    event = decode(_INSTALLATION, json)
    repositories = _read_repositories(event.repositories or [], "repositories")
    return Installation(
        event.installation.id,
        _read_login(event.installation),
        change,
        added=repositories if change == "created" else (),
        removed=repositories if change == "deleted" else (),
    )


def read_repositories(json: bytes) -> WebhookEvent:
    """Parse the event `installation_repositories`. Raises `PayloadNotUsable`."""
    if decode(_ACTION, json).action not in ("added", "removed"):
        return Ignored("Pharos follows only repositories that are added to or removed from an installation.")
    event = decode(_REPOSITORIES, json)
    return Installation(
        event.installation.id,
        _read_login(event.installation),
        "repositories",
        added=_read_repositories(event.repositories_added, "repositories_added"),
        removed=_read_repositories(event.repositories_removed, "repositories_removed"),
    )


def _read_login(installation: _Installation) -> str:
    login = clean_name(installation.account.login)
    if login is None:
        raise payload_error("installation.account.login", "must have a printable character")
    return login


def _read_repositories(repositories: list[_Repository], path: str) -> tuple[HostedRepository, ...]:
    return tuple(
        HostedRepository(
            read_full_name(repository.full_name, f"{path}[{index}].full_name"),
            read_host_id(repository.id, f"{path}[{index}].id"),
        )
        for index, repository in enumerate(repositories)
    )

"""Webhooks of GitHub: docs.github.com/webhooks/webhook-events-and-payloads."""

from datetime import datetime
from typing import Literal

from msgspec.json import Decoder

from git_hosts.github.installations import read_installation, read_repositories
from git_hosts.interface import Headers
from git_hosts.payloads.request import decode, read_delivery_header, read_event_header, read_json
from git_hosts.payloads.values import (
    InstallationNumber,
    NumericRepositoryId,
    Payload,
    PullRequestNumber,
    RepositoryPayload,
    clean_message,
    clean_name,
    clean_url,
    is_branch,
    read_commit,
    read_full_name,
    read_host_id,
    read_pushed_branch,
)
from git_hosts.signatures import verify_hex_signature
from git_hosts.webhook_events import (
    BranchChange,
    HostedRepository,
    Ignored,
    Ping,
    PullRequest,
    Push,
    WebhookEvent,
    WebhookSecret,
)
from pipeline_contracts.errors import PayloadNotUsable

_ACTIONS: dict[str, Literal["opened", "updated", "closed"]] = {
    "opened": "opened",
    "reopened": "opened",
    "synchronize": "updated",
    "closed": "closed",
}


class _Repository(RepositoryPayload):
    id: NumericRepositoryId | None = None
    html_url: str | None = None


class _Installation(Payload):
    id: InstallationNumber


class _Pusher(Payload):
    name: str | None = None


class _Commit(Payload):
    message: str | None = None


class _Push(Payload):
    ref: str
    after: str
    repository: _Repository
    before: str | None = None
    created: bool = False
    deleted: bool = False
    head_commit: _Commit | None = None
    pusher: _Pusher | None = None
    installation: _Installation | None = None


class _Action(Payload):
    action: str


class _Head(Payload):
    ref: str
    sha: str
    repo: RepositoryPayload | None


class _PullRequest(Payload):
    head: _Head


class _Sender(Payload):
    login: str | None = None


class _PullRequestEvent(Payload):
    number: PullRequestNumber
    pull_request: _PullRequest
    repository: _Repository
    sender: _Sender | None = None
    installation: _Installation | None = None


class _PingEvent(Payload):
    repository: _Repository | None = None


_PING = Decoder(_PingEvent)
_PUSH = Decoder(_Push)
_ACTION = Decoder(_Action)
_PULL_REQUEST = Decoder(_PullRequestEvent)


def verify_signature(raw: bytes, headers: Headers, secret: WebhookSecret, now: datetime) -> None:
    """Raises `BadSignature`."""
    verify_hex_signature(raw, headers, "X-Hub-Signature-256", secret)


def read_delivery_id(headers: Headers) -> str | None:
    """Raises `PayloadNotUsable`."""
    return read_delivery_header(headers, "X-GitHub-Delivery")


def read_event_name(headers: Headers) -> str:
    """Raises `PayloadNotUsable`."""
    return read_event_header(headers, "X-GitHub-Event")


def parse_event(name: str, raw: bytes, headers: Headers) -> WebhookEvent:
    """Raises `PayloadNotUsable`. Bodies of events that Pharos ignores are not decoded."""
    if name == "ping":
        return _read_ping(raw, headers)
    reader = _READERS.get(name)
    if reader is None:
        return Ignored("Pharos does not follow this event.")
    return reader(read_json(raw, headers, may_be_form=True))


def _read_ping(raw: bytes, headers: Headers) -> WebhookEvent:
    """Accept any body: the ping of an organization's webhook has no repository."""
    try:
        repository = decode(_PING, read_json(raw, headers, may_be_form=True)).repository
        return Ping(None if repository is None else _read_repository(repository))
    except PayloadNotUsable:
        return Ping()


def _read_repository(repository: _Repository) -> HostedRepository:
    return HostedRepository(
        read_full_name(repository.full_name, "repository.full_name"),
        read_host_id(repository.id, "repository.id"),
        clean_url(repository.html_url),
    )


def _read_push(json: bytes) -> WebhookEvent:
    push = decode(_PUSH, json)
    branch = read_pushed_branch(push.ref)
    if isinstance(branch, Ignored):
        return branch
    before, after = read_commit(push.before, "before"), read_commit(push.after, "after")
    change = BranchChange(
        branch,
        None if push.created else before,
        None if push.deleted else after,
        clean_message(push.head_commit.message) if push.head_commit else None,
    )
    return Push(
        (change,),
        _read_repository(push.repository),
        clean_name(push.pusher.name) if push.pusher else None,
        push.installation.id if push.installation else None,
    )


def _read_pull_request(json: bytes) -> WebhookEvent:
    action = _ACTIONS.get(decode(_ACTION, json).action)
    if action is None:
        return Ignored("Pharos follows only pull requests that are opened, closed, or get new code.")
    event = decode(_PULL_REQUEST, json)
    head = event.pull_request.head
    ref = f"refs/pull/{event.number}/head"
    target = _read_repository(event.repository)
    return PullRequest(
        number=event.number,
        action=action,
        branch=head.ref if is_branch(head.ref) else ref,
        revision=read_commit(head.sha, "pull_request.head.sha"),
        # `repo` is null if the fork was deleted.
        is_fork=head.repo is None or head.repo.full_name.lower() != target.full_name.lower(),
        ref=ref,
        sender=clean_name(event.sender.login) if event.sender else None,
        repository=target,
        installation=event.installation.id if event.installation else None,
    )


_READERS = {
    "push": _read_push,
    "pull_request": _read_pull_request,
    "installation": read_installation,
    "installation_repositories": read_repositories,
}

"""Webhooks of GitHub: docs.github.com/webhooks/webhook-events-and-payloads."""

from datetime import datetime
from typing import Literal

from msgspec.json import Decoder

from git_hosts.github.installations import read_installation, read_repositories
from git_hosts.interface import Headers
from git_hosts.payloads.body import decode, read_json
from git_hosts.payloads.headers import delivery_header, event_header
from git_hosts.payloads.values import (
    HostNumber,
    InstallationId,
    NamedRepository,
    Number,
    Payload,
    clean_address,
    clean_message,
    clean_name,
    is_branch,
    read_commit,
    read_full_name,
    read_host_id,
    read_pushed_ref,
)
from git_hosts.signatures.hex_signature import verify_hex
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


class _Repository(NamedRepository):
    id: HostNumber | None = None
    html_url: str | None = None


class _Installation(Payload):
    id: InstallationId


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
    repo: NamedRepository | None


class _PullRequest(Payload):
    head: _Head


class _Sender(Payload):
    login: str | None = None


class _PullRequestEvent(Payload):
    number: Number
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
    verify_hex(raw, headers, "X-Hub-Signature-256", secret)


def read_delivery_id(headers: Headers) -> str | None:
    """Raises `PayloadNotUsable`."""
    return delivery_header(headers, "X-GitHub-Delivery")


def read_event_name(headers: Headers) -> str:
    """Raises `PayloadNotUsable`."""
    return event_header(headers, "X-GitHub-Event")


def parse_event(name: str, raw: bytes, headers: Headers) -> WebhookEvent:
    """Raises `PayloadNotUsable`. Bodies of events that Pharos ignores are not decoded."""
    if name == "ping":
        return _read_ping(raw, headers)
    reader = _READERS.get(name)
    if reader is None:
        return Ignored("This event is not followed.")
    return reader(read_json(raw, headers, may_be_form=True))


def _read_ping(raw: bytes, headers: Headers) -> WebhookEvent:
    """A ping is answered whatever it says: only an organization's has no repository."""
    try:
        repository = decode(_PING, read_json(raw, headers, may_be_form=True)).repository
        return Ping(None if repository is None else _read_repository(repository))
    except PayloadNotUsable:
        return Ping()


def _read_repository(repository: _Repository) -> HostedRepository:
    return HostedRepository(
        read_full_name(repository.full_name, "repository.full_name"),
        read_host_id(repository.id, "repository.id"),
        clean_address(repository.html_url),
    )


def _read_push(json: bytes) -> WebhookEvent:
    push = decode(_PUSH, json)
    branch = read_pushed_ref(push.ref)
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
        return Ignored("Of pull requests, only what opens, changes or closes them is followed.")
    told = decode(_PULL_REQUEST, json)
    head = told.pull_request.head
    ref = f"refs/pull/{told.number}/head"
    target = _read_repository(told.repository)
    return PullRequest(
        number=told.number,
        action=action,
        branch=head.ref if is_branch(head.ref) else ref,
        revision=read_commit(head.sha, "pull_request.head.sha"),
        # A fork that was deleted is null.
        is_fork=head.repo is None or head.repo.full_name.lower() != target.full_name.lower(),
        ref=ref,
        by=clean_name(told.sender.login) if told.sender else None,
        repository=target,
        installation=told.installation.id if told.installation else None,
    )


_READERS = {
    "push": _read_push,
    "pull_request": _read_pull_request,
    "installation": read_installation,
    "installation_repositories": read_repositories,
}

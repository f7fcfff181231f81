"""Webhooks of Bitbucket Cloud: support.atlassian.com/bitbucket-cloud/docs/event-payloads."""

from datetime import datetime
from typing import Literal

from msgspec.json import Decoder

from git_hosts.interface import Headers
from git_hosts.payloads.body import decode, read_json
from git_hosts.payloads.headers import delivery_header, event_header
from git_hosts.payloads.unusable import unusable
from git_hosts.payloads.values import (
    A_TAG,
    NO_BRANCH,
    NamedRepository,
    Number,
    Payload,
    clean_message,
    clean_name,
    is_branch,
    read_beginning_of_commit,
    read_commit,
    read_full_name,
    read_host_id,
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

_BRANCH = "branch"
_ACTIONS: dict[str, Literal["opened", "updated", "closed"]] = {
    "pullrequest:created": "opened",
    "pullrequest:updated": "updated",
    "pullrequest:fulfilled": "closed",
    "pullrequest:rejected": "closed",
}


class _Repository(NamedRepository):
    uuid: str | None = None


class _Actor(Payload):
    nickname: str | None = None
    display_name: str | None = None


class _Target(Payload):
    hash: str
    message: str | None = None


class _Ref(Payload):
    type: str
    name: str
    target: _Target


class _Change(Payload):
    new: _Ref | None
    old: _Ref | None = None


class _Changes(Payload):
    changes: list[_Change]


class _PushEvent(Payload):
    push: _Changes
    repository: _Repository
    actor: _Actor | None = None


class _Name(Payload):
    name: str


class _Hash(Payload):
    hash: str


class _Source(Payload):
    branch: _Name
    commit: _Hash | None = None
    repository: NamedRepository | None = None


class _PullRequest(Payload):
    id: Number
    source: _Source


class _PullRequestEvent(Payload):
    pullrequest: _PullRequest
    repository: _Repository
    actor: _Actor | None = None


_PUSH = Decoder(_PushEvent)
_PULL_REQUEST = Decoder(_PullRequestEvent)


def verify_signature(raw: bytes, headers: Headers, secret: WebhookSecret, now: datetime) -> None:
    """Raises `BadSignature`."""
    verify_hex(raw, headers, "X-Hub-Signature", secret)


def read_delivery_id(headers: Headers) -> str | None:
    """Raises `PayloadNotUsable`."""
    return delivery_header(headers, "X-Request-UUID")


def read_event_name(headers: Headers) -> str:
    """Raises `PayloadNotUsable`."""
    return event_header(headers, "X-Event-Key")


def parse_event(name: str, raw: bytes, headers: Headers) -> WebhookEvent:
    """Raises `PayloadNotUsable`. Bodies of events that Pharos ignores are not decoded."""
    if name == "diagnostics:ping":
        return Ping()
    if name == "repo:push":
        return _read_push(read_json(raw, headers))
    if name in _ACTIONS:
        return _read_pull_request(read_json(raw, headers), _ACTIONS[name])
    return Ignored("This event is not followed.")


def _read_push(json: bytes) -> WebhookEvent:
    told = decode(_PUSH, json)
    read = (_read_change(change, f"push.changes[{i}]") for i, change in enumerate(told.push.changes))
    changes = tuple(change for change in read if change is not None)
    if not changes:
        return NO_BRANCH if any(_is_of_branch(change) for change in told.push.changes) else A_TAG
    return Push(changes, _read_repository(told.repository), _name_actor(told.actor))


def _read_repository(repository: _Repository) -> HostedRepository:
    return HostedRepository(
        read_full_name(repository.full_name, "repository.full_name"),
        read_host_id(repository.uuid, "repository.uuid"),
    )


def _read_change(change: _Change, path: str) -> BranchChange | None:
    """None: it is of a tag, or of a branch that nobody can follow."""
    ref = change.new or change.old
    if ref is None:
        raise unusable(path, "must have old or new")
    if ref.type != _BRANCH or not is_branch(ref.name):
        return None
    return BranchChange(
        ref.name,
        read_commit(change.old.target.hash, f"{path}.old.target.hash") if change.old else None,
        read_commit(change.new.target.hash, f"{path}.new.target.hash") if change.new else None,
        clean_message(change.new.target.message) if change.new else None,
    )


def _is_of_branch(change: _Change) -> bool:
    ref = change.new or change.old
    return ref is not None and ref.type == _BRANCH


def _read_pull_request(json: bytes, action: Literal["opened", "updated", "closed"]) -> WebhookEvent:
    told = decode(_PULL_REQUEST, json)
    source = told.pullrequest.source
    if not is_branch(source.branch.name):
        return NO_BRANCH
    target = _read_repository(told.repository)
    path = "pullrequest.source.commit.hash"
    return PullRequest(
        number=told.pullrequest.id,
        action=action,
        branch=source.branch.name,
        revision=read_beginning_of_commit(source.commit.hash, path) if source.commit else None,
        # A fork that was deleted is null.
        is_fork=source.repository is None or source.repository.full_name.lower() != target.full_name.lower(),
        by=_name_actor(told.actor),
        repository=target,
    )


def _name_actor(actor: _Actor | None) -> str | None:
    return (clean_name(actor.nickname) or clean_name(actor.display_name)) if actor else None

"""Webhooks of Bitbucket Cloud: support.atlassian.com/bitbucket-cloud/docs/event-payloads."""

from datetime import datetime
from typing import Literal

from msgspec.json import Decoder

from git_hosts.interface import Headers
from git_hosts.payloads.request import decode, read_delivery_header, read_event_header, read_json
from git_hosts.payloads.values import (
    IGNORED_REF,
    IGNORED_TAG,
    Payload,
    PullRequestNumber,
    RepositoryPayload,
    clean_message,
    clean_name,
    is_branch,
    payload_error,
    read_commit,
    read_commit_prefix,
    read_full_name,
    read_host_id,
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

_BRANCH_TYPE = "branch"
_ACTIONS: dict[str, Literal["opened", "updated", "closed"]] = {
    "pullrequest:created": "opened",
    "pullrequest:updated": "updated",
    "pullrequest:fulfilled": "closed",
    "pullrequest:rejected": "closed",
}


class _Repository(RepositoryPayload):
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
    repository: RepositoryPayload | None = None


class _PullRequest(Payload):
    id: PullRequestNumber
    source: _Source


class _PullRequestEvent(Payload):
    pullrequest: _PullRequest
    repository: _Repository
    actor: _Actor | None = None


_PUSH = Decoder(_PushEvent)
_PULL_REQUEST = Decoder(_PullRequestEvent)


def verify_signature(raw: bytes, headers: Headers, secret: WebhookSecret, now: datetime) -> None:
    """Raises `BadSignature`."""
    verify_hex_signature(raw, headers, "X-Hub-Signature", secret)


def read_delivery_id(headers: Headers) -> str | None:
    """Raises `PayloadNotUsable`."""
    return read_delivery_header(headers, "X-Request-UUID")


def read_event_name(headers: Headers) -> str:
    """Raises `PayloadNotUsable`."""
    return read_event_header(headers, "X-Event-Key")


def parse_event(name: str, raw: bytes, headers: Headers) -> WebhookEvent:
    """Raises `PayloadNotUsable`. Bodies of events that Pharos ignores are not decoded."""
    if name == "diagnostics:ping":
        return Ping()
    if name == "repo:push":
        return _read_push(read_json(raw, headers))
    if name in _ACTIONS:
        return _read_pull_request(read_json(raw, headers), _ACTIONS[name])
    return Ignored("Pharos does not follow this event.")


def _read_push(json: bytes) -> WebhookEvent:
    event = decode(_PUSH, json)
    parsed = (_read_change(change, f"push.changes[{i}]") for i, change in enumerate(event.push.changes))
    changes = tuple(change for change in parsed if change is not None)
    if not changes:
        return IGNORED_REF if any(_is_branch_change(change) for change in event.push.changes) else IGNORED_TAG
    return Push(changes, _read_repository(event.repository), _name_actor(event.actor))


def _read_repository(repository: _Repository) -> HostedRepository:
    return HostedRepository(
        read_full_name(repository.full_name, "repository.full_name"),
        read_host_id(repository.uuid, "repository.uuid"),
    )


def _read_change(change: _Change, path: str) -> BranchChange | None:
    """Return None for a tag, and for a branch whose name Git does not allow."""
    ref = change.new or change.old
    if ref is None:
        raise payload_error(path, "must have old or new")
    if ref.type != _BRANCH_TYPE or not is_branch(ref.name):
        return None
    return BranchChange(
        ref.name,
        read_commit(change.old.target.hash, f"{path}.old.target.hash") if change.old else None,
        read_commit(change.new.target.hash, f"{path}.new.target.hash") if change.new else None,
        clean_message(change.new.target.message) if change.new else None,
    )


def _is_branch_change(change: _Change) -> bool:
    ref = change.new or change.old
    return ref is not None and ref.type == _BRANCH_TYPE


def _read_pull_request(json: bytes, action: Literal["opened", "updated", "closed"]) -> WebhookEvent:
    event = decode(_PULL_REQUEST, json)
    source = event.pullrequest.source
    if not is_branch(source.branch.name):
        return IGNORED_REF
    target = _read_repository(event.repository)
    path = "pullrequest.source.commit.hash"
    return PullRequest(
        number=event.pullrequest.id,
        action=action,
        branch=source.branch.name,
        revision=read_commit_prefix(source.commit.hash, path) if source.commit else None,
        # `repository` is null if the fork was deleted.
        is_fork=source.repository is None or source.repository.full_name.lower() != target.full_name.lower(),
        sender=_name_actor(event.actor),
        repository=target,
    )


def _name_actor(actor: _Actor | None) -> str | None:
    return (clean_name(actor.nickname) or clean_name(actor.display_name)) if actor else None

"""Webhooks of GitLab: docs.gitlab.com/user/project/integrations/webhook_events."""

import hmac
from datetime import datetime
from hashlib import sha256
from typing import Literal

from msgspec import UNSET, UnsetType
from msgspec.json import Decoder

from git_hosts.interface import Headers
from git_hosts.payloads.request import (
    decode,
    read_delivery_header,
    read_event_header,
    read_json,
    read_signature_header,
)
from git_hosts.payloads.values import (
    IGNORED_TAG,
    NumericRepositoryId,
    Payload,
    PullRequestNumber,
    clean_message,
    clean_name,
    clean_url,
    is_branch,
    payload_error,
    read_commit,
    read_full_name,
    read_host_id,
    read_pushed_branch,
)
from git_hosts.signatures import ID_HEADER, verify_standard_webhook
from git_hosts.webhook_events import (
    BranchChange,
    HostedRepository,
    Ignored,
    PullRequest,
    Push,
    WebhookEvent,
    WebhookSecret,
)
from pipeline_contracts.errors import BadSignature

_TOKEN_HEADER = "X-Gitlab-Token"
_ADVICE = "Give the webhook at GitLab the secret token that Pharos has for it."
_PUSH_KIND, _TAG_KIND, _MERGE_REQUEST_KIND = "push", "tag_push", "merge_request"
_KINDS = {
    "Push Hook": _PUSH_KIND,
    "Tag Push Hook": _TAG_KIND,
    "Merge Request Hook": _MERGE_REQUEST_KIND,
}
# Sent for all projects of an instance. Only the body names the event.
_SYSTEM_HOOK = "System Hook"
_ACTIONS: dict[str, Literal["opened", "updated", "closed"]] = {
    "open": "opened",
    "reopen": "opened",
    "update": "updated",
    "close": "closed",
    "merge": "closed",
}
_NOT_FOLLOWED = Ignored("Pharos does not follow this event.")


class _Kind(Payload):
    object_kind: str | None = None
    event_name: str | None = None


class _Project(Payload):
    path_with_namespace: str
    id: NumericRepositoryId | None = None
    web_url: str | None = None


class _Commit(Payload):
    id: str
    message: str | None = None


class _Push(Payload):
    ref: str
    after: str
    project: _Project
    project_id: NumericRepositoryId | None = None
    before: str | None = None
    checkout_sha: str | None | UnsetType = UNSET
    commits: list[_Commit] | None = None
    user_username: str | None = None


class _MergeRequestAction(Payload):
    action: str | None = None
    oldrev: str | None = None


class _MergeRequestActionEvent(Payload):
    object_attributes: _MergeRequestAction


class _MergeRequest(Payload):
    iid: PullRequestNumber
    source_branch: str
    source_project_id: int | None
    target_project_id: int
    last_commit: _Commit | None = None


class _User(Payload):
    username: str | None = None


class _MergeRequestEvent(Payload):
    object_attributes: _MergeRequest
    project: _Project
    user: _User | None = None


_KIND = Decoder(_Kind)
_PUSH = Decoder(_Push)
_ACTION = Decoder(_MergeRequestActionEvent)
_MERGE_REQUEST = Decoder(_MergeRequestEvent)


def verify_signature(raw: bytes, headers: Headers, secret: WebhookSecret, now: datetime) -> None:
    """Check a plain token only if the repository has no signing token. Raises `BadSignature`."""
    if secret.kind == "plain":
        _verify_token(headers, secret)
    else:
        verify_standard_webhook(raw, headers, secret, now)


def _verify_token(headers: Headers, secret: WebhookSecret) -> None:
    token = read_signature_header(headers, _TOKEN_HEADER, _ADVICE)
    # Compare digests: a comparison of the texts would reveal the length of the secret.
    expected = sha256(secret.value.encode()).digest()
    if not hmac.compare_digest(expected, sha256(token.encode("utf-8", "surrogatepass")).digest()):
        raise BadSignature(f"{_TOKEN_HEADER} is not the webhook's secret. {_ADVICE}")


def read_delivery_id(headers: Headers) -> str | None:
    """Raises `PayloadNotUsable`."""
    return read_delivery_header(headers, ID_HEADER, "Idempotency-Key", "X-Gitlab-Event-UUID")


def read_event_name(headers: Headers) -> str:
    """Raises `PayloadNotUsable`."""
    return read_event_header(headers, "X-Gitlab-Event")


def parse_event(name: str, raw: bytes, headers: Headers) -> WebhookEvent:
    """Raises `PayloadNotUsable`. Bodies of events that Pharos ignores are not decoded."""
    if name != _SYSTEM_HOOK and name not in _KINDS:
        return _NOT_FOLLOWED
    if name == "Tag Push Hook":
        return IGNORED_TAG
    json = read_json(raw, headers)
    event = decode(_KIND, json)
    kind = event.event_name if name == _SYSTEM_HOOK and event.object_kind is None else event.object_kind
    if name != _SYSTEM_HOOK and kind != _KINDS[name]:
        # The signature does not cover the header with the event name.
        raise payload_error("object_kind", f"must be {_KINDS[name]} for the event {name}")
    reader = _READERS.get(kind or "")
    return reader(json) if reader else _NOT_FOLLOWED


def _read_push(json: bytes) -> WebhookEvent:
    push = decode(_PUSH, json)
    branch = read_pushed_branch(push.ref)
    if isinstance(branch, Ignored):
        return branch
    before, after = read_commit(push.before, "before"), read_commit(push.after, "after")
    change = BranchChange(
        branch, before, None if push.checkout_sha is None else after, _head_message(push.commits, push.after)
    )
    return Push((change,), _read_project(push.project, push.project_id), clean_name(push.user_username))


def _read_project(project: _Project, number: int | None) -> HostedRepository:
    """`number`: the project's ID in the event itself, as the `project` of a system hook has no ID."""
    return HostedRepository(
        read_full_name(project.path_with_namespace, "project.path_with_namespace"),
        read_host_id(number if project.id is None else project.id, "project.id"),
        clean_url(project.web_url),
    )


def _head_message(commits: list[_Commit] | None, head: str) -> str | None:
    # GitLab sends at most the newest 20 commits, and none in system hooks.
    return next((clean_message(commit.message) for commit in commits or () if commit.id == head), None)


def _read_merge_request(json: bytes) -> WebhookEvent:
    attributes = decode(_ACTION, json).object_attributes
    action = _ACTIONS.get(attributes.action or "")
    # An update without `oldrev` changed no code: only the title, a label or the like.
    if action is None or (action == "updated" and attributes.oldrev is None):
        return Ignored("Pharos follows only merge requests that are opened, closed, or get new code.")
    event = decode(_MERGE_REQUEST, json)
    request = event.object_attributes
    ref = f"refs/merge-requests/{request.iid}/head"
    last = request.last_commit
    return PullRequest(
        number=request.iid,
        action=action,
        branch=request.source_branch if is_branch(request.source_branch) else ref,
        revision=read_commit(last.id, "object_attributes.last_commit.id") if last else None,
        is_fork=request.source_project_id != request.target_project_id,
        ref=ref,
        message=clean_message(last.message) if last else None,
        sender=clean_name(event.user.username) if event.user else None,
        repository=_read_project(event.project, request.target_project_id),
    )


def _read_tag_push(_: bytes) -> WebhookEvent:
    return IGNORED_TAG


_READERS = {_PUSH_KIND: _read_push, _TAG_KIND: _read_tag_push, _MERGE_REQUEST_KIND: _read_merge_request}

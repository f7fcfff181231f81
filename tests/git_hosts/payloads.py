"""The payloads of `tests/data/webhooks`, written after the hosts' documentation, and functions that parse them."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from git_hosts.all_hosts import HOSTS
from git_hosts.interface import Headers
from git_hosts.webhook_events import WebhookEvent
from pipeline_contracts.errors import PayloadNotUsable

_FOLDER = Path("tests/data/webhooks")
MISSING = object()
EVENTS = {
    "github-push": ("github", "push"),
    "github-pull-request": ("github", "pull_request"),
    "github-installation": ("github", "installation"),
    "github-installation-repositories": ("github", "installation_repositories"),
    "gitlab-push": ("gitlab", "Push Hook"),
    "gitlab-push-deleted": ("gitlab", "Push Hook"),
    "gitlab-tag-push": ("gitlab", "Tag Push Hook"),
    "gitlab-merge-request": ("gitlab", "Merge Request Hook"),
    "bitbucket-push": ("bitbucket", "repo:push"),
    "bitbucket-pull-request": ("bitbucket", "pullrequest:created"),
}
"""Provider and event of each payload."""


def load(name: str) -> Any:
    """Return the document of a payload."""
    return json.loads((_FOLDER / f"{name}.json").read_bytes())


def change(document: Any, path: str, value: Any) -> Any:
    """Return the document with another value at the path (`push.changes.0.new`), or without it if it is `MISSING`."""
    document = copy.deepcopy(document)
    *holders, last = path.split(".")
    holder = document
    for key in holders:
        holder = holder[_key(holder, key)]
    if value is MISSING:
        del holder[_key(holder, last)]
    else:
        holder[_key(holder, last)] = value
    return document


def _key(holder: Any, key: str) -> Any:
    return int(key) if isinstance(holder, list) else key


def read(name: str, *changes: tuple[str, Any], event: str | None = None) -> WebhookEvent:
    """Parse a payload with some values changed."""
    document = load(name)
    for path, value in changes:
        document = change(document, path, value)
    kind, own_event = EVENTS[name]
    return HOSTS[kind].webhooks.parse_event(
        own_event if event is None else event, json.dumps(document).encode(), {}
    )


def refused_field(kind: str, event: str, raw: bytes, headers: Headers | None = None) -> str:
    """Return the only field in the error of a refused delivery."""
    with pytest.raises(PayloadNotUsable) as caught:
        HOSTS[kind].webhooks.parse_event(event, raw, headers or {})
    (error,) = caught.value.errors
    assert error.field in caught.value.detail
    return error.field

"""The interface of a kind of Git host."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from git_hosts.commit_statuses import CommitStatusClient
from git_hosts.webhook_events import SecretKind, WebhookEvent, WebhookSecret
from pipeline_contracts.settings import Settings

Headers = Mapping[str, Sequence[str]]
"""All values of each header, by its name in lower case."""


class WebhookReader(Protocol):
    """Verifies and parses the webhook deliveries of one kind of host. Implemented by modules."""

    def verify_signature(self, raw: bytes, headers: Headers, secret: WebhookSecret, now: datetime) -> None:
        """Raise `BadSignature` unless the host sent exactly these bytes."""

    def read_delivery_id(self, headers: Headers) -> str | None:
        """Return the host's ID of the delivery, which a redelivery repeats; None if the host sends none. Raises
        `PayloadNotUsable`."""

    def read_event_name(self, headers: Headers) -> str:
        """Return the host's name of the event, such as `pull_request`. Raises `PayloadNotUsable`."""

    def parse_event(self, name: str, raw: bytes, headers: Headers) -> WebhookEvent:
        """Parse the body of the event of this name. Raises `PayloadNotUsable`."""


def no_commit_status_client(_settings: Settings) -> None:
    """For hosts that get no commit statuses."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class GitHost:
    """One kind of Git host."""

    kind: str
    """Its name in the API, the command line and the database."""
    domains: tuple[str, ...]
    """Repository URLs on these domains are of this kind, unless the user names another."""
    secret_kind: SecretKind
    """The method by which the host proves that it sent a delivery."""
    has_plain_secrets: bool = False
    """True if some versions of the host sign nothing and send the secret itself."""
    repository_id: re.Pattern[str]
    """The pattern of the host's repository IDs."""
    repository_id_format: str
    """The pattern in words, such as `a number`."""
    repository_id_path: tuple[str, str]
    """The path of the repository ID in a payload."""
    webhook_setup: Mapping[SecretKind, str]
    """Instructions that say where to paste the URL and the secret of a webhook, keyed by the kind of the secret."""
    webhooks: WebhookReader
    open_commit_status_client: Callable[
        [Settings], AbstractAsyncContextManager[CommitStatusClient] | None
    ] = no_commit_status_client
    """Open the client that reports commit statuses; None if the settings have no token for the host. Raises
    `BadSettings`."""

"""Webhook events, in one form for all Git hosts."""

from dataclasses import dataclass, field
from typing import Literal

SecretKind = Literal["hmac", "signing", "plain"]


@dataclass(frozen=True, slots=True)
class WebhookSecret:
    """The secret with which a host proves that it sent a delivery.

    `hmac`: the key of an HMAC over the body (GitHub, Bitbucket). `signing`: `whsec_` and base64, the key of Standard
    Webhooks (GitLab). `plain`: sent as it is (GitLab, where no signing token is set).
    """

    kind: SecretKind
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class HostedRepository:
    """A repository as described in a payload."""

    full_name: str
    """`owner/name` in the host's spelling; on GitLab with all groups before the name."""
    id: str | None = None
    """The host's own ID, which renames and transfers keep; None: the payload has none."""
    address: str | None = None
    """The URL of its page on the host; None: the payload has none."""


@dataclass(frozen=True, slots=True)
class BranchChange:
    """The change of one branch by a push. Commits are full IDs."""

    branch: str
    before: str | None
    """None: the branch is new."""
    after: str | None
    """None: the branch was deleted."""
    message: str | None = None
    """Of the head commit; None: the payload does not have it."""


@dataclass(frozen=True, slots=True)
class Push:
    """Branches that were pushed, without tags."""

    changes: tuple[BranchChange, ...]
    repository: HostedRepository
    sender: str | None = None
    """The user name on the host."""
    installation: int | None = None
    """The installation of the host's application that sent the event."""


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull (or merge) request that was opened, changed its code, or was closed."""

    number: int
    action: Literal["opened", "updated", "closed"]
    """`opened` includes reopened; `closed` includes merged."""
    branch: str
    """The branch with its code, in the fork if `is_fork`."""
    revision: str | None
    """Its head commit, possibly abbreviated: Bitbucket sends 12 digits."""
    is_fork: bool
    repository: HostedRepository
    """The target repository."""
    ref: str | None = None
    """The ref of its code in the target repository, also for a fork; None if the host keeps none."""
    message: str | None = None
    """Of the head commit; None: the payload does not have it."""
    sender: str | None = None
    installation: int | None = None


@dataclass(frozen=True, slots=True)
class Ping:
    """A test delivery, which hosts send when a webhook is created."""

    repository: HostedRepository | None = None
    """The repository of the webhook; None: the payload does not have it."""


@dataclass(frozen=True, slots=True)
class Installation:
    """A change of the repositories that an installation of the host's application may access."""

    id: int
    login: str
    change: Literal["created", "deleted", "suspended", "unsuspended", "repositories"]
    added: tuple[HostedRepository, ...] = ()
    removed: tuple[HostedRepository, ...] = ()


@dataclass(frozen=True, slots=True)
class Ignored:
    """An event that Pharos ignores."""

    reason: str
    """Shown to people: `Tags are not followed.`"""


WebhookEvent = Push | PullRequest | Ping | Installation | Ignored

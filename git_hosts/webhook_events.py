"""What Git hosts tell, in one form for all of them."""

from dataclasses import dataclass, field
from typing import Literal

SecretKind = Literal["hmac", "signing", "plain"]


@dataclass(frozen=True, slots=True)
class WebhookSecret:
    """What a host proves with that a delivery is its own.

    `hmac`: the key of an HMAC over the body (GitHub, Bitbucket). `signing`: `whsec_` and base64, the key of Standard
    Webhooks (GitLab). `plain`: sent as it is (GitLab, where no signing token is set).
    """

    kind: SecretKind
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class HostedRepository:
    """A repository as its host describes it in a payload."""

    full_name: str
    """`owner/name` as the host writes it; on GitLab the groups before the name."""
    id: str | None = None
    """The host's own ID, which renames and transfers keep; None: the payload has none."""
    address: str | None = None
    """Its page on the host; None: the payload has none."""


@dataclass(frozen=True, slots=True)
class BranchChange:
    """One branch as a push has moved it. Commits are full IDs."""

    branch: str
    before: str | None
    """None: the branch is new."""
    after: str | None
    """None: the branch was deleted."""
    message: str | None = None
    """Of the head commit; None: the host does not tell."""


@dataclass(frozen=True, slots=True)
class Push:
    """Branches that were pushed; tags are left out."""

    changes: tuple[BranchChange, ...]
    repository: HostedRepository
    by: str | None = None
    """Who pushed, as the host calls them."""
    installation: int | None = None
    """The installation of the host's application that tells it."""


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull (or merge) request whose code is there, has changed, or is not of interest any more."""

    number: int
    action: Literal["opened", "updated", "closed"]
    """`opened`: reopened as well; `closed`: merged as well."""
    branch: str
    """Where its code is, in the repository that `is_fork` tells of."""
    revision: str | None
    """Its head commit, or the beginning of that: Bitbucket gives 12 digits."""
    is_fork: bool
    repository: HostedRepository
    """The target."""
    ref: str | None = None
    """Where the target repository has its code, fork or not; None: nowhere."""
    message: str | None = None
    """Of the head commit; None: the host does not tell."""
    by: str | None = None
    installation: int | None = None


@dataclass(frozen=True, slots=True)
class Ping:
    """The host tries whether it is understood."""

    repository: HostedRepository | None = None
    """Whose webhook it is; None: the host does not tell."""


@dataclass(frozen=True, slots=True)
class Installation:
    """The host's application may see other repositories than before."""

    id: int
    login: str
    change: Literal["created", "deleted", "suspended", "unsuspended", "repositories"]
    added: tuple[HostedRepository, ...] = ()
    removed: tuple[HostedRepository, ...] = ()


@dataclass(frozen=True, slots=True)
class Ignored:
    """Nothing that anybody here waits for."""

    reason: str
    """For people: `Tags are not followed.`"""


WebhookEvent = Push | PullRequest | Ping | Installation | Ignored

"""The commits that a waiting deployment would bring live, and the commits of the live release that it lacks."""

from collections.abc import Sequence
from typing import Annotated, TypedDict

import msgspec
from msgspec import Meta

from control_domain.tables.deployments import Deployment

MAX_LISTED = 20
"""Commits that are listed by name; the others are counted."""


class CommitSummary(TypedDict):
    """One commit of a Git repository."""

    revision: str
    subject: Annotated[str, Meta(description="The first line of its message, at most 200 characters.")]
    author: str


class NewCommits(TypedDict):
    """How a waiting deployment differs from the live release, in commits."""

    since: Annotated[str, Meta(description="The commit of the live release that it was compared with.")]
    added: Annotated[
        int | None,
        Meta(
            description="The number of commits that would go live. Null if unknown; `fault` has the reason."
        ),
    ]
    missing: Annotated[
        int | None,
        Meta(description="The number of commits of the live release that would no longer be live."),
    ]
    newest: Annotated[list[CommitSummary], Meta(description="The newest 20 commits that would go live.")]
    fault: Annotated[str | None, Meta(description="Why the commits could not be counted.")]


def encode_new_commits(found: NewCommits | None) -> str:
    """Return the value of the column `new_commits` of a deployment. None stands for no live release."""
    return msgspec.json.encode(found).decode()


def read_new_commits(deployment: Deployment, live_revision: str | None) -> NewCommits | None:
    """Return the commits; None if they are not known yet, or if another release is live now."""
    if deployment.new_commits is None or live_revision is None:
        return None
    found = msgspec.json.decode(deployment.new_commits, type=NewCommits | None)
    return found if found is not None and found["since"] == live_revision else None


def describe_fault(since: str, fault: str) -> NewCommits:
    """Return the document of a comparison that failed."""
    return NewCommits(since=since, added=None, missing=None, newest=[], fault=fault)


def describe_found(since: str, added: int, missing: int, newest: Sequence[CommitSummary]) -> NewCommits:
    """Return the document of a comparison."""
    return NewCommits(since=since, added=added, missing=missing, newest=list(newest), fault=None)

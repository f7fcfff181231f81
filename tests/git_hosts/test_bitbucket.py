"""Bitbucket Cloud's pushes and pull requests."""

from typing import Any

import pytest

from git_hosts.webhook_events import BranchChange, HostedRepository, Ignored, PullRequest, Push
from tests.git_hosts.payloads import MISSING, load, read

_SHOP = HostedRepository("acme/shop", "{2c3d}")
_TAG = load("bitbucket-push")["push"]["changes"][3]


def _pull(*changes: tuple[str, Any], event: str = "pullrequest:created") -> PullRequest:
    notice = read("bitbucket-pull-request", *changes, event=event)
    assert isinstance(notice, PullRequest)
    return notice


def _branches(*changes: tuple[str, Any]) -> list[str]:
    notice = read("bitbucket-push", *changes)
    assert isinstance(notice, Push)
    return [change.branch for change in notice.changes]


def test_all_changes_of_a_push_are_read_but_for_tags() -> None:
    assert read("bitbucket-push") == Push(
        (
            BranchChange(
                "main",
                "1e65c05c1d5171631d92438a13901ca7dae9618c",
                "709d658dc5b6d6afcd46049c2f332ee3f515a67d",
                "Sell more\n",
            ),
            BranchChange(
                "feature/basket", None, "da1560886d4f094c3e6c9ef40349f7d38b5d27d7", "Show the basket\n"
            ),
            BranchChange("feature/till", "95790bf891e76fee5e1747ab589903a6a1f80f22", None),
        ),
        _SHOP,
        "ada",
    )


def test_a_push_of_tags_alone_is_ignored() -> None:
    moved = {**_TAG, "old": _TAG["new"]}
    deleted = {**_TAG, "old": _TAG["new"], "new": None}
    assert read("bitbucket-push", ("push.changes", [_TAG, moved, deleted])) == Ignored(
        "Tags are not followed."
    )


@pytest.mark.parametrize("name", ["a b", "-rf", "a" * 201, "", "a\0"])
def test_a_branch_that_git_does_not_allow_is_left_out(name: str) -> None:
    assert _branches(("push.changes.0.new.name", name)) == ["feature/basket", "feature/till"]


def test_a_push_of_which_nothing_is_left_is_ignored() -> None:
    assert isinstance(read("bitbucket-push", ("push.changes", [])), Ignored)
    first = load("bitbucket-push")["push"]["changes"][0]
    first["new"]["name"] = "a b"
    notice = read("bitbucket-push", ("push.changes", [first, _TAG]))
    assert isinstance(notice, Ignored) and "200 characters" in notice.reason


def test_a_pull_request() -> None:
    assert _pull() == PullRequest(
        number=7,
        action="opened",
        branch="feature/basket",
        revision="da1560886d4f",
        is_fork=False,
        sender="ada",
        repository=_SHOP,
    )


@pytest.mark.parametrize(
    ("event", "action"),
    [
        ("pullrequest:updated", "updated"),
        ("pullrequest:fulfilled", "closed"),
        ("pullrequest:rejected", "closed"),
    ],
)
def test_what_happens_to_a_pull_request(event: str, action: str) -> None:
    assert _pull(event=event).action == action


@pytest.mark.parametrize("event", ["pullrequest:approved", "repo:fork", "Repo:Push", "push", ""])
def test_other_events_are_ignored(event: str) -> None:
    assert isinstance(read("bitbucket-pull-request", ("pullrequest", None), event=event), Ignored)


def test_a_pull_request_from_another_repository_is_of_a_fork() -> None:
    path = "pullrequest.source.repository"
    assert _pull((f"{path}.full_name", "mallory/shop")).is_fork
    assert not _pull((f"{path}.full_name", "Acme/Shop")).is_fork
    # A fork that was deleted.
    assert _pull((path, None)).is_fork
    assert _pull((path, MISSING)).is_fork


@pytest.mark.parametrize("commit", ["da15608", "d" * 12, "d" * 40, "d" * 64])
def test_the_beginning_of_a_commit_is_kept_as_it_is(commit: str) -> None:
    assert _pull(("pullrequest.source.commit.hash", commit)).revision == commit


@pytest.mark.parametrize("commit", [None, MISSING])
def test_a_pull_request_may_be_without_a_commit(commit: Any) -> None:
    assert _pull(("pullrequest.source.commit", commit)).revision is None


def test_a_pull_request_of_a_branch_that_git_does_not_allow_is_ignored() -> None:
    changed = ("pullrequest.source.branch.name", "a b")
    assert isinstance(read("bitbucket-pull-request", changed), Ignored)


@pytest.mark.parametrize(
    ("actor", "sender"),
    [
        ({"nickname": "ada", "display_name": "Ada"}, "ada"),
        ({"display_name": "Ada"}, "Ada"),
        ({"nickname": None, "display_name": "Ada"}, "Ada"),
        ({}, None),
        (None, None),
        (MISSING, None),
    ],
)
def test_who_it_was_is_told_where_it_can_be(actor: Any, sender: str | None) -> None:
    assert _pull(("actor", actor)).sender == sender

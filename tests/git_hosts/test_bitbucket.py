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


def test_a_push_is_parsed_without_its_tags() -> None:
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
def test_changes_of_invalid_branches_are_dropped(name: str) -> None:
    assert _branches(("push.changes.0.new.name", name)) == ["feature/basket", "feature/till"]


def test_a_push_without_valid_branches_is_ignored() -> None:
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
def test_pull_request_events_map_to_actions(event: str, action: str) -> None:
    assert _pull(event=event).action == action


@pytest.mark.parametrize("event", ["pullrequest:approved", "repo:fork", "Repo:Push", "push", ""])
def test_other_events_are_ignored(event: str) -> None:
    assert isinstance(read("bitbucket-pull-request", ("pullrequest", None), event=event), Ignored)


def test_a_pull_request_from_another_repository_is_a_fork() -> None:
    path = "pullrequest.source.repository"
    assert _pull((f"{path}.full_name", "mallory/shop")).is_fork
    assert not _pull((f"{path}.full_name", "Acme/Shop")).is_fork
    # A fork that was deleted.
    assert _pull((path, None)).is_fork
    assert _pull((path, MISSING)).is_fork


@pytest.mark.parametrize("commit", ["da15608", "d" * 12, "d" * 40, "d" * 64])
def test_an_abbreviated_commit_is_kept(commit: str) -> None:
    assert _pull(("pullrequest.source.commit.hash", commit)).revision == commit


@pytest.mark.parametrize("commit", [None, MISSING])
def test_a_pull_request_may_lack_a_commit(commit: Any) -> None:
    assert _pull(("pullrequest.source.commit", commit)).revision is None


def test_a_pull_request_of_an_invalid_branch_is_ignored() -> None:
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
def test_the_sender_is_read_if_present(actor: Any, sender: str | None) -> None:
    assert _pull(("actor", actor)).sender == sender

"""GitHub's pushes, pull requests and installations."""

from pathlib import Path
from typing import Any

import pytest

from git_hosts.github import webhooks as github
from git_hosts.webhook_events import (
    BranchChange,
    HostedRepository,
    Ignored,
    Installation,
    Ping,
    PullRequest,
    Push,
    WebhookEvent,
)
from tests.git_hosts.payloads import MISSING, read

_PUBLISHED = Path("../shared/testdata/github")
published = pytest.mark.skipif(
    not _PUBLISHED.exists(), reason="GitHub's published payloads are not next to the project"
)
_HELLO = HostedRepository("Codertocat/Hello-World", "186853002", "https://github.com/Codertocat/Hello-World")
_SHOP, _TILL = HostedRepository("acme/shop", "15"), HostedRepository("Acme/Till", "16")
_ZEROS = "0" * 40
_BEFORE, _AFTER = "95790bf891e76fee5e1747ab589903a6a1f80f22", "da1560886d4f094c3e6c9ef40349f7d38b5d27d7"
_MESSAGE = "Show the basket\n\nOn each page."


def _read_published(event: str, name: str) -> WebhookEvent:
    return github.parse_event(event, (_PUBLISHED / f"{name}.json").read_bytes(), {})


def _change(*changes: tuple[str, Any]) -> BranchChange:
    notice = read("github-push", *changes)
    assert isinstance(notice, Push)
    (change,) = notice.changes
    return change


def _pull(*changes: tuple[str, Any]) -> PullRequest:
    notice = read("github-pull-request", *changes)
    assert isinstance(notice, PullRequest)
    return notice


@published
def test_the_published_push_of_a_new_branch() -> None:
    head = "6113728f27ae82c7b1a177c8d03f9e96e0adf246"
    assert _read_published("push", "push-with-new-branch") == Push(
        (BranchChange("master", None, head, "Initial commit"),), _HELLO, "Codertocat", 1
    )


@published
def test_the_published_push_of_a_tag() -> None:
    assert _read_published("push", "push") == Ignored("Tags are not followed.")


@published
@pytest.mark.parametrize(("name", "action"), [("opened", "opened"), ("closed", "closed")])
def test_the_published_pull_requests(name: str, action: Any) -> None:
    assert _read_published("pull_request", f"pull_request-{name}") == PullRequest(
        number=2,
        action=action,
        branch="changes",
        revision="ec26c3e57ca3a959ca5aad62de7213c562f8c821",
        is_fork=False,
        ref="refs/pull/2/head",
        sender="Codertocat",
        repository=_HELLO,
        installation=1,
    )


@published
def test_the_published_ping() -> None:
    assert _read_published("ping", "ping") == Ping(
        HostedRepository("Octocoders/Hello-World", "186853261", "https://github.com/Octocoders/Hello-World")
    )


@published
def test_the_published_installation() -> None:
    expected = Installation(
        957387, "Codertocat", "created", added=(HostedRepository("Codertocat/Hello-World", "186853002"),)
    )
    assert _read_published("installation", "installation-created") == expected


def test_a_push() -> None:
    assert read("github-push") == Push(
        (BranchChange("feature/basket", _BEFORE, _AFTER, _MESSAGE),), _SHOP, "ada", 41
    )


def test_optional_members_of_a_push_may_be_missing() -> None:
    gone = [(name, MISSING) for name in ("pusher", "installation", "head_commit", "created", "deleted")]
    expected = Push((BranchChange("feature/basket", _BEFORE, _AFTER),), _SHOP, None, None)
    assert read("github-push", *gone) == expected
    assert read("github-push", ("pusher", None), ("installation", None), ("head_commit", None)) == expected


@pytest.mark.parametrize("zeros", ["0" * 40, "0" * 64])
def test_all_zeros_mean_no_commit(zeros: str) -> None:
    assert _change(("before", zeros)).before is None
    assert _change(("after", zeros), ("head_commit", None)) == BranchChange("feature/basket", _BEFORE, None)


def test_a_created_branch_has_no_commit_before() -> None:
    assert _change(("created", True)).before is None


def test_a_deleted_branch_has_no_commit_after() -> None:
    assert _change(("deleted", True)).after is None


def test_sha256_commits_are_parsed() -> None:
    assert _change(("after", "b" * 64)).after == "b" * 64


@pytest.mark.parametrize(
    "ref",
    [
        "refs/tags/v1",
        "refs/tags/refs/heads/main",
        "refs/notes/commits",
        "refs/heads/",
        "refs/heads/-rf",
        "refs/heads/a..b",
        "refs/heads/a b",
        "refs/heads/a\0",
        "refs/heads/a\n",
        "refs/heads/" + "a" * 201,
        "refs/heads/" + "a/" * 1_000_000,
        "main",
        "",
    ],
)
def test_invalid_refs_are_ignored(ref: str) -> None:
    assert isinstance(read("github-push", ("ref", ref)), Ignored)


def test_a_branch_name_may_look_like_a_tag() -> None:
    assert _change(("ref", "refs/heads/refs/tags/v1")).branch == "refs/tags/v1"
    assert _change(("ref", "refs/heads/" + "a" * 200)).branch == "a" * 200
    assert _change(("ref", "refs/heads/Blåbær")).branch == "Blåbær"


def test_a_pull_request() -> None:
    assert _pull() == PullRequest(
        number=7,
        action="opened",
        branch="feature/basket",
        revision=_AFTER,
        is_fork=False,
        ref="refs/pull/7/head",
        sender="grace",
        repository=_SHOP,
        installation=41,
    )


@pytest.mark.parametrize(
    ("action", "expected"),
    [("reopened", "opened"), ("synchronize", "updated"), ("closed", "closed")],
)
def test_pull_request_events_map_to_actions(action: str, expected: str) -> None:
    assert _pull(("action", action)).action == expected


@pytest.mark.parametrize("action", ["labeled", "edited", "", "OPENED", "opened ", "\0"])
def test_other_actions_are_ignored_with_any_payload(action: str) -> None:
    assert isinstance(
        read("github-pull-request", ("action", action), ("pull_request", 1), ("number", "x")), Ignored
    )


def test_a_pull_request_from_another_repository_is_a_fork() -> None:
    fork = {"id": 99, "full_name": "mallory/shop"}
    assert _pull(("pull_request.head.repo", fork)).is_fork
    assert not _pull(("pull_request.head.repo", {**fork, "full_name": "Acme/Shop"})).is_fork


def test_a_pull_request_from_a_deleted_fork_is_a_fork() -> None:
    assert _pull(("action", "closed"), ("pull_request.head.repo", None)).is_fork


def test_a_pull_request_of_an_invalid_branch_uses_its_ref() -> None:
    for branch in ("a b", "-rf", "a" * 201, ""):
        assert _pull(("pull_request.head.ref", branch)).branch == "refs/pull/7/head"


def test_the_largest_numbers_are_accepted() -> None:
    assert _pull(("number", 2**31 - 1)).ref == "refs/pull/2147483647/head"
    assert _pull(("installation.id", 2**63 - 1)).installation == 2**63 - 1


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("created", Installation(41, "acme", "created", added=(_SHOP, _TILL))),
        ("deleted", Installation(41, "acme", "deleted", removed=(_SHOP, _TILL))),
        ("suspend", Installation(41, "acme", "suspended")),
        ("unsuspend", Installation(41, "acme", "unsuspended")),
    ],
)
def test_installation_events_map_to_changes(action: str, expected: Installation) -> None:
    assert read("github-installation", ("action", action)) == expected


def test_an_installation_may_lack_repositories() -> None:
    expected = Installation(41, "acme", "created")
    assert read("github-installation", ("repositories", MISSING)) == expected
    assert read("github-installation", ("repositories", None)) == expected


def test_other_actions_of_installations_are_ignored() -> None:
    changed = ("action", "new_permissions_accepted")
    assert isinstance(read("github-installation", changed), Ignored)
    assert isinstance(read("github-installation-repositories", changed), Ignored)


@pytest.mark.parametrize("action", ["added", "removed"])
def test_added_and_removed_repositories_are_parsed(action: str) -> None:
    assert read("github-installation-repositories", ("action", action)) == Installation(
        41, "acme", "repositories", added=(_SHOP,), removed=(_TILL,)
    )

"""GitLab's pushes and merge requests."""

from typing import Any

import pytest

from git_hosts.webhook_events import BranchChange, HostedRepository, Ignored, PullRequest, Push
from pipeline_contracts.errors import PayloadNotUsable
from tests.git_hosts.payloads import EVENTS, MISSING, read

_BEFORE, _AFTER = "95790bf891e76fee5e1747ab589903a6a1f80f22", "da1560886d4f094c3e6c9ef40349f7d38b5d27d7"
_MESSAGE = "Show the basket\n\nOn each page."
_SHOP = HostedRepository("acme/web/shop", "15")
_OPENED = PullRequest(
    number=7,
    action="opened",
    branch="feature/basket",
    revision=_AFTER,
    is_fork=False,
    ref="refs/merge-requests/7/head",
    message=_MESSAGE,
    sender="ada",
    repository=_SHOP,
)


def _change(*changes: tuple[str, Any], event: str = "Push Hook") -> BranchChange:
    notice = read("gitlab-push", *changes, event=event)
    assert isinstance(notice, Push)
    (change,) = notice.changes
    return change


def _pull(*changes: tuple[str, Any]) -> PullRequest:
    notice = read("gitlab-merge-request", *changes)
    assert isinstance(notice, PullRequest)
    return notice


def test_a_push() -> None:
    assert read("gitlab-push") == Push(
        (BranchChange("feature/basket", _BEFORE, _AFTER, _MESSAGE),), _SHOP, "ada"
    )


def test_a_push_that_deletes_the_branch() -> None:
    assert read("gitlab-push-deleted") == Push((BranchChange("feature/basket", _BEFORE, None),), _SHOP, "ada")


def test_either_mark_of_a_deletion_suffices() -> None:
    assert _change(("checkout_sha", None)).after is None
    assert _change(("after", "0" * 40)).after is None
    assert _change(("checkout_sha", MISSING)).after == _AFTER


def test_a_new_branch_has_no_commit_before() -> None:
    assert _change(("before", "0" * 40)).before is None


def test_the_message_is_that_of_the_head_commit() -> None:
    head = {"id": _AFTER, "message": "The head"}
    assert _change(("commits", [head, {"id": _BEFORE, "message": "Another"}])).message == "The head"


@pytest.mark.parametrize(
    "commits", [MISSING, None, [], [{"id": _BEFORE, "message": "Another"}], [{"id": _AFTER}]]
)
def test_without_the_head_commit_the_message_is_none(commits: Any) -> None:
    assert _change(("commits", commits)).message is None


@pytest.mark.parametrize("ref", ["refs/tags/v1", "refs/heads/a b", "refs/heads/" + "a" * 201, "main"])
def test_invalid_refs_are_ignored(ref: str) -> None:
    assert isinstance(read("gitlab-push", ("ref", ref)), Ignored)


def test_tags_are_ignored() -> None:
    assert read("gitlab-tag-push") == Ignored("Tags are not followed.")
    assert read("gitlab-tag-push", event="System Hook") == Ignored("Tags are not followed.")


def test_a_merge_request() -> None:
    assert _pull() == _OPENED


@pytest.mark.parametrize(
    ("action", "expected"),
    [("open", "opened"), ("reopen", "opened"), ("close", "closed"), ("merge", "closed")],
)
def test_merge_request_events_map_to_actions(action: str, expected: str) -> None:
    assert _pull(("object_attributes.action", action)).action == expected


def test_an_update_counts_only_with_new_commits() -> None:
    update = ("object_attributes.action", "update")
    assert _pull(update, ("object_attributes.oldrev", _BEFORE)).action == "updated"
    assert isinstance(read("gitlab-merge-request", update), Ignored)
    assert isinstance(read("gitlab-merge-request", update, ("object_attributes.oldrev", None)), Ignored)


@pytest.mark.parametrize("action", ["approved", "unapproval", "", None, MISSING])
def test_other_actions_are_ignored(action: Any) -> None:
    assert isinstance(read("gitlab-merge-request", ("object_attributes.action", action)), Ignored)


@pytest.mark.parametrize("source", [16, None])
def test_a_merge_request_from_another_project_is_a_fork(source: int | None) -> None:
    assert _pull(("object_attributes.source_project_id", source)).is_fork


def test_a_merge_request_of_an_invalid_branch_uses_its_ref() -> None:
    assert _pull(("object_attributes.source_branch", "a b")).branch == "refs/merge-requests/7/head"


def test_a_merge_request_may_lack_commits() -> None:
    notice = _pull(("object_attributes.last_commit", None))
    assert (notice.revision, notice.message) == (None, None)


def test_system_hooks_are_parsed_by_the_kind_in_their_body() -> None:
    for name in ("gitlab-push", "gitlab-merge-request"):
        assert read(name, event="System Hook") == read(name, event=EVENTS[name][1])
    assert _change(("commits", []), event="System Hook").message is None


@pytest.mark.parametrize("kind", ["repository_update", "project_create", None, MISSING])
def test_other_system_hooks_are_ignored(kind: Any) -> None:
    changes = (("object_kind", kind), ("event_name", kind))
    assert isinstance(read("gitlab-push", *changes, event="System Hook"), Ignored)


def test_a_push_of_a_system_hook_has_only_an_event_name() -> None:
    changes = (("object_kind", MISSING), ("project.id", MISSING), ("commits", []))
    assert read("gitlab-push", *changes, event="System Hook") == Push(
        (BranchChange("feature/basket", _BEFORE, _AFTER),), _SHOP, "ada"
    )
    tag = read("gitlab-push", ("object_kind", MISSING), ("event_name", "tag_push"), event="System Hook")
    assert tag == Ignored("Tags are not followed.")
    # In a project hook, the header names the event.
    with pytest.raises(PayloadNotUsable):
        read("gitlab-push", ("object_kind", MISSING))

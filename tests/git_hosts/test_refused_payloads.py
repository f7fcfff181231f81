"""Invalid payloads are refused with the path of the fault, and never cause another error."""

import copy
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from git_hosts.all_hosts import HOSTS
from git_hosts.payloads.values import MAX_MESSAGE_BYTES
from git_hosts.webhook_events import Ignored, PullRequest, Push, WebhookEvent
from pipeline_contracts.errors import PayloadNotUsable
from tests.control_api.schemas.document_changes import change_somewhere
from tests.git_hosts.payloads import EVENTS, MISSING, change, load, read, refused_field

# The header identifies tag pushes: their bodies are not parsed.
_NAMES = [name for name in EVENTS if name != "gitlab-tag-push"]
_FOLLOWED = sorted({EVENTS[name] for name in _NAMES} | {("gitlab", "System Hook")})
_MEMBERS = {
    "github-push": ["ref", "after", "repository", "repository.full_name"],
    "github-pull-request": [
        "action",
        "number",
        "pull_request",
        "pull_request.head",
        "pull_request.head.ref",
        "pull_request.head.sha",
        "pull_request.head.repo",
        "pull_request.head.repo.full_name",
        "repository",
        "repository.full_name",
    ],
    "github-installation": ["action", "installation", "installation.id", "installation.account.login"],
    "github-installation-repositories": ["installation", "repositories_added", "repositories_removed"],
    "gitlab-push": ["object_kind", "ref", "after", "project", "project.path_with_namespace"],
    "gitlab-merge-request": [
        "object_kind",
        "object_attributes",
        "object_attributes.iid",
        "object_attributes.source_branch",
        "object_attributes.source_project_id",
        "object_attributes.target_project_id",
        "object_attributes.last_commit.id",
        "project",
    ],
    "bitbucket-push": [
        "push",
        "push.changes",
        "push.changes.0.new",
        "push.changes.1.new.type",
        "push.changes.1.new.name",
        "push.changes.1.new.target",
        "push.changes.2.old.target.hash",
        "repository",
        "repository.full_name",
    ],
    "bitbucket-pull-request": [
        "pullrequest",
        "pullrequest.id",
        "pullrequest.source",
        "pullrequest.source.branch.name",
        "pullrequest.source.commit.hash",
        "repository.full_name",
    ],
}
_OPTIONAL = [
    ("github-push", "before"),
    ("gitlab-push", "before"),
    ("bitbucket-push", "push.changes.0.old"),
]
"""Members that do not affect whether a push is deployed."""
_EACH_MEMBER = [(name, path) for name, paths in _MEMBERS.items() for path in paths]
_COMMITS = [
    ("github-push", "before"),
    ("github-push", "after"),
    ("github-pull-request", "pull_request.head.sha"),
    ("gitlab-push", "before"),
    ("gitlab-push", "after"),
    ("gitlab-merge-request", "object_attributes.last_commit.id"),
    ("bitbucket-push", "push.changes.0.old.target.hash"),
    ("bitbucket-push", "push.changes.1.new.target.hash"),
]
_NUMBERS = [
    ("github-pull-request", "number"),
    ("gitlab-merge-request", "object_attributes.iid"),
    ("bitbucket-pull-request", "pullrequest.id"),
]
_FULL_NAMES = [
    ("github-push", "repository.full_name"),
    ("github-pull-request", "repository.full_name"),
    ("github-installation", "repositories.1.full_name"),
    ("github-installation-repositories", "repositories_removed.0.full_name"),
    ("gitlab-push", "project.path_with_namespace"),
    ("gitlab-merge-request", "project.path_with_namespace"),
    ("bitbucket-push", "repository.full_name"),
    ("bitbucket-pull-request", "repository.full_name"),
]
_DEEP = 200_000


def _format_path(path: str) -> str:
    """Return a path such as `push.changes.0.new` as errors write it."""
    told = ""
    for part in path.split("."):
        told += f"[{part}]" if part.isdigit() else f".{part}"
    return told.removeprefix(".")


def _refused(name: str, path: str, value: Any) -> str:
    raw = json.dumps(change(load(name), path, value)).encode()
    return refused_field(*EVENTS[name], raw)


@pytest.mark.parametrize(("name", "path"), _EACH_MEMBER)
def test_a_missing_member_is_named(name: str, path: str) -> None:
    assert _refused(name, path, MISSING) == _format_path(path)


@pytest.mark.parametrize(("name", "path"), _OPTIONAL)
def test_a_push_is_parsed_without_optional_members(name: str, path: str) -> None:
    assert isinstance(read(name, (path, MISSING)), Push)


@pytest.mark.parametrize(("name", "path"), [*_EACH_MEMBER, *_OPTIONAL])
@pytest.mark.parametrize("value", [True, 1.5, [[]]])
def test_a_member_of_the_wrong_type_is_named(name: str, path: str, value: Any) -> None:
    told = _refused(name, path, value)
    # A list in a list is invalid one level deeper.
    assert told == _format_path(path) or (value == [[]] and told == f"{_format_path(path)}[0]")


@pytest.mark.parametrize(("name", "path"), _COMMITS)
@pytest.mark.parametrize(
    "commit", ["", "abc", "A" * 40, "a" * 39, "a" * 41, "a" * 65, "g" * 40, "a" * 40 + "\n", "٠" * 40]
)
def test_a_commit_has_40_or_64_digits(name: str, path: str, commit: str) -> None:
    assert _refused(name, path, commit) == _format_path(path)


@pytest.mark.parametrize("commit", ["", "abcdef", "A" * 12, "a" * 65, "g" * 12, "a" * 12 + "\n"])
def test_an_abbreviated_commit_has_7_to_64_digits(commit: str) -> None:
    path = "pullrequest.source.commit.hash"
    assert _refused("bitbucket-pull-request", path, commit) == path


@pytest.mark.parametrize(("name", "path"), _NUMBERS)
@pytest.mark.parametrize("number", [0, -1, 2**31, 2**63, 2**64, 10**400, 1.0, "7", None])
def test_a_pull_request_number_fits_its_column(name: str, path: str, number: Any) -> None:
    assert _refused(name, path, number) == path


@pytest.mark.parametrize(
    "name", ["github-push", "github-pull-request", "github-installation", "github-installation-repositories"]
)
@pytest.mark.parametrize("number", [0, -1, 2**63, 10**400, "41"])
def test_an_installation_id_fits_its_column(name: str, number: Any) -> None:
    assert _refused(name, "installation.id", number) == "installation.id"


@pytest.mark.parametrize(("name", "path"), _FULL_NAMES)
@pytest.mark.parametrize(
    "full_name",
    ["", "shop", "/", "acme/", "a b/c", "acme/shop\n", "acme/sh\0p", "å/b", "a" * 150 + "/" + "b" * 150],
)
def test_a_full_name_has_owner_and_name(name: str, path: str, full_name: str) -> None:
    assert _refused(name, path, full_name) == _format_path(path)


@pytest.mark.parametrize(("kind", "event"), _FOLLOWED)
@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" ",
        b"null",
        b"[]",
        b"1",
        b'"text"',
        b"{",
        b"{'ref': 1}",
        b"NaN",
        b"\xef\xbb\xbf{}",
        '{"ref": "main"}'.encode("utf-16"),
        b'{"unknown": "\xff"}',
        b'{"\xed\xa0\x80": 1}',
        b'{"unknown": ' + b"[" * _DEEP + b"]" * _DEEP + b"}",
        b'{"unknown": ' + b'{"a":' * _DEEP,
        b"[" * _DEEP,
    ],
    ids=lambda raw: repr(raw[:24]),
)
def test_other_bodies_than_json_objects_are_refused(kind: str, event: str, raw: bytes) -> None:
    assert refused_field(kind, event, raw) == "body"


@pytest.mark.parametrize("name", _NAMES)
def test_data_after_the_object_is_refused(name: str) -> None:
    document = json.dumps(load(name)).encode()
    assert refused_field(*EVENTS[name], document + b"{}") == "body"


@pytest.mark.parametrize("name", _NAMES)
def test_invalid_utf8_is_refused_anywhere(name: str) -> None:
    document = json.dumps({**load(name), "nobody reads this": "?"}).encode()
    assert refused_field(*EVENTS[name], document.replace(b"?", b"\xc3\x28")) == "body"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("github-push", "head_commit.message"),
        ("github-push", "pusher.name"),
        ("github-push", "ref"),
        ("gitlab-push", "commits.1.message"),
        ("bitbucket-push", "push.changes.0.new.name"),
        ("bitbucket-pull-request", "actor.nickname"),
    ],
)
@pytest.mark.parametrize("text", ["\ud800", "\udc00", "a\udfffb", "\udc00\ud800"])
def test_a_lone_surrogate_is_refused(name: str, path: str, text: str) -> None:
    assert _refused(name, path, text) == "body"


@pytest.mark.parametrize(
    ("event", "name", "kind"),
    [("Push Hook", "gitlab-merge-request", "push"), ("Merge Request Hook", "gitlab-push", "")],
)
def test_the_body_kind_must_match_gitlab_s_event_header(event: str, name: str, kind: str) -> None:
    assert refused_field("gitlab", event, json.dumps(load(name)).encode()) == "object_kind"


def test_a_change_without_old_and_new_is_refused() -> None:
    nothing = {"old": None, "new": None}
    assert _refused("bitbucket-push", "push.changes", [nothing]) == "push.changes[0]"


@pytest.mark.parametrize("kind", HOSTS)
@pytest.mark.parametrize("event", ["issues", "Note Hook", "repo:fork", "", "\0", "\ud800", "PUSH"])
def test_bodies_of_ignored_events_are_not_parsed(kind: str, event: str) -> None:
    headers = {"content-type": ["text/plain"], "content-encoding": ["gzip"]}
    assert isinstance(HOSTS[kind].webhooks.parse_event(event, b"\xff", headers), Ignored)


def test_names_and_messages_are_cleaned_for_the_database() -> None:
    notice = read(
        "github-push",
        ("pusher.name", "A\0d\u202ea\n" + "!" * 5000),
        ("head_commit.message", "Show\0 it\r\n\tnow"),
    )
    assert isinstance(notice, Push)
    assert notice.sender == "Ada" + "!" * 97
    assert notice.changes[0].message == "Show\ufffd it\r\n\tnow"


def test_a_name_without_printable_characters_is_none() -> None:
    notice = read("github-push", ("pusher.name", "\0\n"))
    assert isinstance(notice, Push) and notice.sender is None
    assert _refused("github-installation", "installation.account.login", "\0") == "installation.account.login"


@pytest.mark.parametrize("character", ["a", "é", "€", "😀"])
def test_messages_are_truncated_to_64_kib(character: str) -> None:
    longest = character * (MAX_MESSAGE_BYTES // len(character.encode()))
    for given_text in (longest, longest + character, longest * 20):
        notice = read("github-push", ("head_commit.message", given_text))
        assert isinstance(notice, Push) and notice.changes[0].message == longest


def _parse_or_refuse(kind: str, event: str, raw: bytes, headers: dict[str, list[str]]) -> WebhookEvent | None:
    try:
        return HOSTS[kind].webhooks.parse_event(event, raw, headers)
    except PayloadNotUsable as refusal:
        assert refusal.errors and refusal.status == 422
        # The error is part of a response and of the list of deliveries.
        refusal.detail.encode()
        assert "\0" not in refusal.detail
        return None


def _texts(notice: WebhookEvent | None) -> list[str]:
    if isinstance(notice, PullRequest):
        texts = [notice.branch, notice.revision, notice.ref, notice.message, notice.sender]
    elif isinstance(notice, Push):
        texts = [notice.sender]
        for moved in notice.changes:
            texts += [moved.branch, moved.before, moved.after, moved.message]
    else:
        return []
    hosted = notice.repository
    texts += [hosted.full_name, hosted.id, hosted.address]
    return [text for text in texts if text is not None]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
_VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    2**31,
    2**63,
    10**30,
    1.5,
    "",
    "\0",
    "\ud800",
    "main",
    "0" * 40,
    "refs/heads/é",
    "x" * 400,
    [],
    [None],
    [[]],
    {},
    {"id": 1},
]
_CONTENT_TYPES = st.sampled_from(["application/json", "application/x-www-form-urlencoded", "text/plain"])


@given(target=st.sampled_from(_FOLLOWED), raw=st.binary(), content_type=_CONTENT_TYPES)
@example(("github", "push"), b"payload=%7B%7D&" * 40, "application/x-www-form-urlencoded")
def test_arbitrary_bytes_are_parsed_or_refused(
    target: tuple[str, str], raw: bytes, content_type: str
) -> None:
    _parse_or_refuse(*target, raw, {"content-type": [content_type]})


@given(target=st.sampled_from(_FOLLOWED), document=_JSON)
def test_arbitrary_json_is_parsed_or_refused(target: tuple[str, str], document: Any) -> None:
    _parse_or_refuse(*target, json.dumps(document).encode(), {})


@given(name=st.sampled_from(_NAMES), data=st.data())
def test_any_changed_payload_is_parsed_or_refused(name: str, data: st.DataObject) -> None:
    document = change_somewhere(copy.deepcopy(load(name)), data, _VALUES)
    notice = _parse_or_refuse(*EVENTS[name], json.dumps(document).encode(), {})
    for text in _texts(notice):
        text.encode()
        assert "\0" not in text

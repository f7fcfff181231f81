"""A table of deliveries with the status and body of each response: none may end in a server error."""

import json
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, update

from control_domain.tables.deployments import Deployment
from control_domain.tables.webhooks import WaitingPush
from pipeline_contracts.deploy_states import ACTIVE_STATUSES
from tests.support.webhooks import (
    AFTER,
    NO_COMMIT,
    SKIP,
    WebhookRepository,
    WebhookRequest,
    encode_request,
    pull,
    push,
    sign,
)

MOST = 5 * 2**20
SIGNATURE = {
    "github": "X-Hub-Signature-256",
    "gitlab": "webhook-signature",
    "bitbucket": "X-Hub-Signature",
}
EVENT = {"github": "X-GitHub-Event", "gitlab": "X-Gitlab-Event", "bitbucket": "X-Event-Key"}
UNUSABLE = (422, "payload-not-usable")
BAD = (401, "bad-signature")
PUBLISHED = Path(__file__).parents[4] / "shared" / "testdata" / "github"


@dataclass(frozen=True, slots=True)
class Case:
    """A delivery, its changes after signing, and the expected response."""

    name: str
    kind: str
    sent: WebhookRequest
    status: int
    outcome: str
    """The `status` in the response, or the type of the problem."""
    headers: Mapping[str, str | None] | None = None
    change: Callable[[str], str] | None = None
    """The change of the signature header."""
    body: bytes | None = None
    first: tuple[WebhookRequest, ...] = ()
    """Deliveries before this one, so that each case runs on its own."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}"


def _of_signatures(kind: str) -> list[Case]:
    """Invalid signatures."""
    sent, name = push(kind), SIGNATURE[kind]
    lost: list[tuple[str, Callable[[str], str]]] = [
        ("wrong", lambda value: value[:-4] + ("0000" if value[-4:] != "0000" else "1111")),
        ("truncated", lambda value: value[:-2]),
        ("longer", lambda value: value + "00"),
        ("in upper case", lambda value: value.upper()),
        ("empty", lambda value: ""),
        ("without its scheme", lambda value: value.partition("=" if "=" in value[:8] else ",")[2]),
        ("of another scheme", lambda value: value.replace("sha256=", "sha1=").replace("v1,", "v2,")),
        ("doubled in one header", lambda value: f"{value},{value}"),
        ("not ASCII", lambda value: value[:-1] + "\u00e9"),
    ]
    cases = [Case(f"signature {what}", kind, sent, *BAD, change=change) for what, change in lost]
    cases.append(Case("signature missing", kind, sent, *BAD, headers={name: None}))
    changed = bytes([sent.body[0], sent.body[1] ^ 1]) + sent.body[2:]
    cases.append(Case("body changed by one byte", kind, sent, *BAD, body=changed))
    cases.append(Case("body a byte longer", kind, sent, *BAD, body=sent.body + b" "))
    cases.append(Case("body empty", kind, sent, *BAD, body=b""))
    other = {"github": "bitbucket", "gitlab": "github", "bitbucket": "github"}[kind]
    cases.append(Case(f"headers of {other}", kind, push(other), *BAD, headers={name: None}))
    return cases


def _of_bodies(kind: str) -> list[Case]:
    """Invalid bodies with a valid signature."""
    event = push(kind).event
    whole = push(kind).body
    deep = b'{"repository":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    bodies: list[tuple[str, bytes]] = [
        ("no JSON", b"ref=refs/heads/main"),
        ("empty", b""),
        ("cut short", whole[:-1]),
        ("a list", b"[]"),
        ("null", b"null"),
        ("an empty object", b"{}"),
        ("not UTF-8", whole.replace(b"ada", b"\xff\xfe")),
        ("deep", deep),
        ("half a surrogate in a branch", whole.replace(b'main"', b'ma\\ud800in"')),
        ("a key twice", whole.replace(b"{", b'{"ref": 1, "ref": 2, ', 1)),
        ("a duplicate key in an ignored member", whole.replace(b"{", b'{"x": [{"y": 1, "y": 2}], ', 1)),
        ("wrong types", whole.replace(b'"ada"', b"[1]").replace(AFTER.encode(), b"abc")),
    ]
    cases = [Case(f"body {what}", kind, WebhookRequest(event, body), *UNUSABLE) for what, body in bodies]
    nul = whole.replace(b"main", b"ma\\u0000in")
    # Not a valid branch name for Git.
    cases.append(Case("body a NUL in a branch", kind, WebhookRequest(event, nul), 200, "ignored"))
    spaces = b" " * (MOST - len(whole))
    cases.append(Case("body of 5 MiB", kind, WebhookRequest(event, whole + spaces), 202, "queued"))
    cases.append(
        Case(
            "body of 5 MiB and 1",
            kind,
            WebhookRequest(event, whole + spaces + b" "),
            413,
            "payload-too-large",
        )
    )
    return cases


def _of_headers(kind: str) -> list[Case]:
    sent = push(kind)
    return [
        Case("another content type", kind, sent, *UNUSABLE, headers={"Content-Type": "text/plain"}),
        Case(
            "charset", kind, sent, 202, "queued", headers={"Content-Type": "application/json; charset=utf-8"}
        ),
        Case("a content encoding", kind, sent, *UNUSABLE, headers={"Content-Encoding": "gzip"}),
        Case("no event", kind, sent, *UNUSABLE, headers={EVENT[kind]: None}),
        Case("an unknown event", kind, WebhookRequest("repo:unheard", b"{}"), 200, "ignored"),
    ]


def _of_events(kind: str) -> list[Case]:
    """Events and their outcomes."""
    opened, closed = pull(kind), pull(kind, "closed")
    changed = pull(kind, "updated", revision="b" * 40)
    return [
        Case("push", kind, push(kind), 202, "queued"),
        Case("push of a new branch", kind, push(kind, before=NO_COMMIT), 202, "queued"),
        Case("push of a branch without a trigger", kind, push(kind, "feature"), 200, "ignored"),
        Case("deletion of a branch", kind, push(kind, after=NO_COMMIT), 200, "ignored"),
        Case("skip mark", kind, push(kind, message=f"Words {SKIP}"), 200, "skipped"),
        Case("pull request of a fork", kind, pull(kind, is_fork=True), 200, "ignored"),
        Case("pull request", kind, opened, 202, "preview_queued", first=(closed,)),
        Case("pull request changed", kind, changed, 202, "preview_updated", first=(opened,)),
        Case("pull request closed", kind, closed, 200, "preview_closed", first=(opened,)),
        Case("pull request closed again", kind, closed, 200, "ignored", first=(opened, closed)),
    ]


def _of_github() -> list[Case]:
    sent, kind = push("github"), "github"
    form = {"Content-Type": "application/x-www-form-urlencoded"}

    def encoded(*payloads: bytes) -> WebhookRequest:
        pairs = [("payload", payload.decode()) for payload in payloads]
        return WebhookRequest(sent.event, urllib.parse.urlencode(pairs).encode())

    tag = encode_request("push", {**json.loads(sent.body), "ref": "refs/tags/v1"})
    number = json.loads(pull(kind).body)
    return [
        Case("form", kind, encoded(sent.body), 202, "queued", headers=form),
        Case("form without a payload", kind, WebhookRequest(sent.event, b"other=1"), *UNUSABLE, headers=form),
        Case("form with two payloads", kind, encoded(sent.body, sent.body), *UNUSABLE, headers=form),
        Case("form said to be JSON", kind, encoded(sent.body), *UNUSABLE),
        Case("tag", kind, tag, 200, "ignored"),
        Case("ping", kind, encode_request("ping", {"zen": "", "hook_id": 1}), 200, "pong"),
        Case(
            "labeled", kind, encode_request("pull_request", {**number, "action": "labeled"}), 200, "ignored"
        ),
        Case("a huge number", kind, encode_request("pull_request", {**number, "number": 10**30}), *UNUSABLE),
        Case("number 0", kind, encode_request("pull_request", {**number, "number": 0}), *UNUSABLE),
    ]


def _of_gitlab() -> list[Case]:
    kind, sent = "gitlab", push("gitlab")
    tag = encode_request(
        "Tag Push Hook", {**json.loads(sent.body), "object_kind": "tag_push", "ref": "refs/tags/v1"}
    )
    return [
        Case("tag", kind, tag, 200, "ignored"),
        Case("no id", kind, sent, *BAD, headers={"webhook-id": None}),
        Case("another id", kind, sent, *BAD, headers={"webhook-id": "another"}),
        Case("no time", kind, sent, *BAD, headers={"webhook-timestamp": None}),
        Case("another time", kind, sent, *BAD, headers={"webhook-timestamp": "1614265330"}),
        Case("no number for a time", kind, sent, *BAD, headers={"webhook-timestamp": "now"}),
        Case(
            "the plain token although a signing token is set",
            kind,
            sent,
            *BAD,
            headers={"X-Gitlab-Token": "whatever it is", "webhook-signature": None},
        ),
    ]


CASES = [
    *(case for kind in SIGNATURE for case in _of_signatures(kind)),
    *(case for kind in SIGNATURE for case in _of_bodies(kind)),
    *(case for kind in SIGNATURE for case in _of_headers(kind)),
    *(case for kind in SIGNATURE for case in _of_events(kind)),
    *_of_github(),
    *_of_gitlab(),
]


async def _reset(shared: WebhookRepository, kind: str) -> None:
    """Restore the state before the first case; previews stay."""
    if shared.kind != kind:
        await shared.change_kind(kind)
    async with shared.platform.sessions() as session, session.begin():
        await session.execute(delete(WaitingPush))
        await session.execute(
            update(Deployment)
            .where(Deployment.status.in_(ACTIVE_STATUSES), Deployment.trigger == "push")
            .values(status="failed")
        )


def _headers(shared: WebhookRepository, case: Case) -> dict[str, str | None]:
    headers = dict(case.headers or {})
    if case.change is not None:
        name = SIGNATURE[case.kind]
        signed = sign(case.kind, shared.secret, case.sent, "one")
        headers |= {key: value for key, value in signed.items() if key.startswith("webhook-")}
        headers[name] = case.change(str(signed[name]))
    return headers


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_each_delivery_gets_its_response(shared: WebhookRepository, case: Case) -> None:
    await _reset(shared, case.kind)
    for sent in case.first:
        await shared.deliver(sent)
    before = len(await shared.deliveries())
    answer = await shared.deliver(case.sent, headers=_headers(shared, case), body=case.body)
    document: dict[str, Any] = answer.json()
    if case.status < 300:
        assert (answer.status, document.pop("status")) == (case.status, case.outcome)
        assert document.keys() <= {"deployment_id"}
        assert answer.headers["Content-Type"] == "application/json"
    else:
        assert answer.problem == (case.status, case.outcome)
        if case.status == 422:
            assert (
                all(error["field"] and error["message"] for error in document["errors"])
                and document["errors"]
            )
    # Only deliveries with a valid signature are stored.
    kept = len(await shared.deliveries()) - before
    assert kept == (0 if case.status in (401, 413) else 1)


@pytest.mark.parametrize(
    ("file", "event", "expected"),
    [
        ("ping.json", "ping", (200, "pong")),
        ("push.json", "push", (200, "ignored")),
        ("push-with-new-branch.json", "push", (202, "queued")),
        ("pull_request-opened.json", "pull_request", (202, "preview_queued")),
        ("pull_request-closed.json", "pull_request", (200, "preview_closed")),
        ("installation-created.json", "installation", (200, "ignored")),
    ],
)
async def test_published_payloads_of_github_are_accepted(
    shared: WebhookRepository, file: str, event: str, expected: tuple[int, str]
) -> None:
    if not PUBLISHED.exists():
        pytest.skip(f"the published payloads are not at {PUBLISHED}")
    await _reset(shared, "github")
    await shared.change(full_name="codertocat/hello-world", host_id=None)
    text = "version: 1\nprocesses: {web: {command: x}}\ntriggers:\n"
    await shared.set_workflow(f"{text}  push: {{master: production}}\n  pull_requests: {{from: staging}}\n")
    if event == "pull_request":
        # Each of the two must run on its own.
        other = "opened" if file.endswith("-closed.json") else "closed"
        await shared.deliver(WebhookRequest(event, (PUBLISHED / f"pull_request-{other}.json").read_bytes()))
    assert await shared.deliver_status(WebhookRequest(event, (PUBLISHED / file).read_bytes())) == expected


async def test_a_repeated_header_is_refused(github: WebhookRepository) -> None:
    sent = push("github")
    signed = sign("github", github.secret, sent)
    address = f"{github.platform.url}/api/repositories/{github.repository_id}/webhook"
    pairs = [(name, str(value)) for name, value in signed.items()]
    pairs += [
        ("X-Hub-Signature-256", str(signed["X-Hub-Signature-256"])),
        ("Content-Type", "application/json"),
    ]
    async with github.platform.http.post(address, data=sent.body, headers=pairs) as answer:
        assert answer.status == 401
    assert await github.deliver_status(sent) == (202, "queued")


async def test_a_body_without_a_content_type_is_json(github: WebhookRepository) -> None:
    sent = push("github")
    address = f"{github.platform.url}/api/repositories/{github.repository_id}/webhook"
    signed = {name: str(value) for name, value in sign("github", github.secret, sent).items()}
    asked = github.platform.http.post(
        address, data=sent.body, headers=signed, skip_auto_headers=["Content-Type"]
    )
    async with asked as answer:
        assert answer.status == 202


@pytest.mark.both_databases
async def test_a_repository_id_must_be_a_number(github: WebhookRepository) -> None:
    for given in ("shop", "0", "-1", "1.0", "99999999999", "%00"):
        answer = await github.deliver(push("github"), path=f"/repositories/{given}/webhook")
        assert answer.problem == (404, "not-found")


async def test_other_methods_are_refused(github: WebhookRepository) -> None:
    for path in (f"/repositories/{github.repository_id}/webhook", "/git-app/webhook", "/github-app/webhook"):
        answer = await github.platform.call("GET", path)
        assert answer.problem == (405, "method-not-allowed")
        assert answer.headers["Allow"] == "POST"

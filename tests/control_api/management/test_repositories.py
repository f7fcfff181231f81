"""Repositories and the secrets of their webhooks."""

import asyncio
import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import delete, func, select, update

from control_domain.deployments.operations import tail_log
from control_domain.repositories.local_folders import parse_local_folders
from control_domain.repositories.webhook_secrets import make_secret, open_secret
from control_domain.tables.audit import AuditEntry
from control_domain.tables.deployments import Deployment
from control_domain.tables.repositories import Repository
from control_domain.tables.webhooks import SealedWebhookSecret, WaitingPush
from tests.control_api.management.conftest import Api
from tests.support.deploy_platform import Response, add_deployment
from tests.support.serve_control import VARIABLE_KEYS

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
URL = "git@github.com:acme/blog.git"
GITLAB = "https://gitlab.com/acme/blog"
# A constant, because it is part of a test's name and must be the same in every process.
SIGNING = "whsec_" + base64.b64encode(bytes(range(32))).decode()
UUID = "{00000000-0000-0000-0000-000000000015}"


def _blog(api: Api) -> str:
    return f"/v1/projects/{api.platform.acme.projects['blog'].public_id}/repository"


def _shop(api: Api) -> str:
    repository = api.platform.acme.repository
    assert repository is not None
    return f"/v1/repositories/{repository.id}"


async def _connect(api: Api, url: str = URL, **body: Any) -> dict[str, Any]:
    made = await api.call("POST", _blog(api), {"url": url, **body})
    assert made.status == 201, made.body
    found: dict[str, Any] = made.data
    return found


async def _stored_secret(api: Api, number: int) -> tuple[str, str]:
    query = select(SealedWebhookSecret).where(SealedWebhookSecret.repository_id == number)
    async with api.platform.sessions() as session:
        secret = open_secret(VARIABLE_KEYS, (await session.execute(query)).scalar_one())
    return secret.kind, secret.value


async def _audit_details(api: Api, skip: int = 0) -> tuple[str, str]:
    """Return action and details of the newest audit entry, or of one before it."""
    query = select(AuditEntry.action, AuditEntry.details).order_by(AuditEntry.id.desc())
    query = query.offset(skip).limit(1)
    async with api.platform.sessions() as session:
        action, details = (await session.execute(query)).one()
    return action, details


async def test_connect_read_list_disconnect(api: Api) -> None:
    blog = api.platform.acme.projects["blog"]
    made = await _connect(api)
    path = f"/v1/repositories/{made['id']}"
    webhook = made.pop("webhook")
    assert webhook["url"] == f"{api.platform.url}/api/repositories/{made['id']}/webhook"
    assert (webhook["secret_kind"], webhook["secret"]) == await _stored_secret(api, made["id"])
    assert made == {
        "id": made["id"],
        "project": {"id": blog.public_id, "name": "Blog", "slug": "blog"},
        "kind": "github",
        "url": URL,
        "branch": "main",
        "host_id": None,
        "push_deploys": True,
        "forks": False,
        "sample": False,
        "secret_kind": "hmac",
        "connected_at": made["connected_at"],
        "disconnected_at": None,
    }
    assert await api.read(path) == made
    listed = await api.read_all("/v1/repositories", limit=1)
    assert [each["project"]["slug"] for each in listed] == ["blog", "shop"]
    assert await api.read(f"/v1/repositories?project={blog.id}") == [made]

    await api.expect((409, "conflict"), "POST", _blog(api), {"url": "https://git.example/other"})
    removed = await api.call("DELETE", path)
    assert removed.data == {**made, "secret_kind": None, "disconnected_at": removed.data["disconnected_at"]}
    assert removed.data["disconnected_at"] is not None
    assert await api.read(path) == removed.data
    assert await api.read(f"/v1/repositories?project={blog.public_id}") == []
    for method, body in (("DELETE", None), ("PATCH", {"branch": "next"})):
        await api.expect((409, "conflict"), method, path, body)
    await api.expect((409, "conflict"), "POST", f"{path}/webhook-secret", {})
    subject = f"repository {made['id']}"
    assert await api.audit(2) == [("repository.disconnect", subject), ("repository.connect", subject)]
    connected = {"project": blog.public_id, "kind": "github", "url": URL, "branch": "main", "webhook": "hmac"}
    assert json.loads((await _audit_details(api, skip=1))[1]) == connected
    again = await _connect(api, "https://git.example/blog", branch="trunk")
    assert (again["kind"], again["branch"], again["webhook"]) == ("git", "trunk", None)


async def test_lists_of_people(shared_api: Api) -> None:
    """A member sees the repositories of projects with a role."""
    blog = shared_api.platform.acme.projects["blog"].public_id
    assert [each["project"]["slug"] for each in await shared_api.read("/v1/repositories", by="viewer")] == [
        "shop"
    ]
    assert await shared_api.read("/v1/repositories", by="stranger") == []
    refused = await shared_api.call("GET", f"/v1/repositories?project={blog}", by="viewer")
    assert refused.problem == (403, "deploy-not-allowed")
    foreign = shared_api.platform.other.projects["shop"].public_id
    assert (await shared_api.call("GET", f"/v1/repositories?project={foreign}")).problem == (404, "not-found")


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["url"]),
        ({"url": ""}, ["url"]),
        ({"url": "ext::sh -c id"}, ["url"]),
        ({"url": "/srv/blog.git"}, ["url"]),
        ({"url": "file:///srv/blog.git"}, ["url"]),
        ({"url": "https://x:hunter2@github.com/a/b"}, ["url"]),
        ({"url": URL, "kind": "svn"}, ["kind"]),
        ({"url": "ftp://h/a", "branch": "-x", "secret": "short"}, ["url", "branch"]),
        ({"url": URL, "branch": "a..b", "secret": "hunter2 is short"}, ["branch", "secret"]),
        ({"url": URL, "secret": "hunter2"}, ["secret"]),
        ({"url": URL, "secret_kind": "plain"}, ["secret_kind"]),
        ({"url": GITLAB, "secret": "hunter2hunter2hunter2"}, ["secret"]),
        ({"url": GITLAB, "secret_kind": "hmac"}, ["secret_kind"]),
        (
            {"url": "https://git.example/a", "secret": "hunter2", "secret_kind": "plain"},
            ["secret", "secret_kind"],
        ),
        ({"url": URL, "branch": "nul\0"}, ["branch"]),
    ],
)
async def test_invalid_repositories(shared_api: Api, body: dict[str, Any], fields: list[str]) -> None:
    refused = await shared_api.call("POST", _blog(shared_api), body)
    assert refused.problem == (422, "validation-failed")
    assert refused.fields == fields
    assert b"hunter2" not in refused.body


async def test_folders_that_the_operator_allows(api: Api) -> None:
    api.platform.app.state.repository_folders = parse_local_folders("/srv/git, /home/git")
    for url in ("/srv/gitea/a.git", "/srv/git/../a.git", "file:///srv/git/%2e%2e/a.git", "/srv"):
        assert (await api.call("POST", _blog(api), {"url": url})).fields == ["url"]
    assert (await _connect(api, "/srv/git/blog.git", kind="github"))["webhook"] is not None


async def test_public_url(api: Api) -> None:
    api.platform.app.state.public_url = "https://pharos.example/"
    made = await _connect(api)
    assert made["webhook"]["url"] == f"https://pharos.example/api/repositories/{made['id']}/webhook"


async def test_secret_of_the_connection_is_replayed_to_its_caller_alone(api: Api) -> None:
    headers = {"Idempotency-Key": "one"}
    first, again = [await api.call("POST", _blog(api), {"url": URL}, headers=headers) for _ in range(2)]
    assert (first.status, again.data) == (201, first.data)
    rows = await api.platform.contents()
    assert first.data["webhook"]["secret"] not in str(rows)


@pytest.mark.parametrize(
    ("kind", "body", "secret_kind"),
    [
        ("github", {}, "hmac"),
        ("bitbucket", {}, "hmac"),
        ("gitlab", {}, "signing"),
        ("gitlab", {"secret_kind": "plain"}, "plain"),
        ("github", {"secret": "chosen-by-the-host"}, "hmac"),
        ("gitlab", {"secret": SIGNING}, "signing"),
        ("gitlab", {"secret": "chosen-by-the-host", "secret_kind": "plain"}, "plain"),
    ],
)
async def test_secrets_of_the_hosts(api: Api, kind: str, body: dict[str, Any], secret_kind: str) -> None:
    made = await _connect(api, "https://git.example/Acme/Blog.git", kind=kind, **body)
    webhook = made["webhook"]
    assert (webhook["secret_kind"], made["secret_kind"]) == (secret_kind, secret_kind)
    assert webhook["secret"] == body.get("secret", webhook["secret"])
    assert await _stored_secret(api, made["id"]) == (secret_kind, webhook["secret"])
    async with api.platform.sessions() as session:
        # Deliveries are compared with this name.
        assert (await session.get_one(Repository, made["id"])).full_name == "acme/blog"


@pytest.mark.both_databases
async def test_one_of_concurrent_connections_succeeds(api: Api) -> None:
    answers: list[Response] = await asyncio.gather(
        *(api.call("POST", _blog(api), {"url": f"https://git.example/{n}"}) for n in range(4))
    )
    assert sorted(answer.status for answer in answers) == [201, 409, 409, 409]


async def test_change_settings(api: Api) -> None:
    made = await _connect(api)
    path = f"/v1/repositories/{made['id']}"
    changes = {"branch": "trunk", "push_deploys": False, "forks": True, "host_id": "42"}
    changed = await api.call("PATCH", path, changes)
    assert {name: changed.data[name] for name in changes} == changes
    subject = f"repository {made['id']}"
    assert await api.audit(2) == [("repository.set", subject), ("repository.branch", subject)]
    assert (await api.call("PATCH", path, {"branch": "trunk", "forks": None})).data == changed.data
    assert await api.audit(1) == [("repository.set", subject)]
    assert (await api.call("PATCH", path, {"host_id": None})).data["host_id"] is None
    details = '{"host_id": {"from": "42", "to": null}}'
    assert await _audit_details(api) == ("repository.set", details)


@pytest.mark.parametrize(
    ("kind", "host_id", "is_valid"),
    [
        ("github", "15", True),
        ("bitbucket", UUID, True),
        # The format of a delivery's ID, and other texts that are not IDs of repositories.
        ("github", UUID, False),
        ("gitlab", "aada3625-8a5b-11ee", False),
        ("bitbucket", "15", False),
        ("github", "", False),
        ("github", "1 5", False),
        ("github", "1" * 65, False),
        ("github", "\u0661", False),
    ],
)
async def test_ids_at_hosts(api: Api, kind: str, host_id: str, is_valid: bool) -> None:
    made = await _connect(api, "https://git.example/acme/blog", kind=kind)
    path = f"/v1/repositories/{made['id']}"
    if is_valid:
        assert (await api.call("PATCH", path, {"host_id": host_id})).data["host_id"] == host_id
        return
    refused = await api.expect((422, "validation-failed"), "PATCH", path, {"host_id": host_id})
    assert refused.fields == ["host_id"]


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"branch": ""}, ["branch"]),
        ({"branch": "a b", "host_id": "no number"}, ["branch", "host_id"]),
        ({"push_deploys": "off", "forks": 1}, ["push_deploys", "forks"]),
    ],
)
async def test_invalid_settings(api: Api, body: dict[str, Any], fields: list[str]) -> None:
    made = await _connect(api)
    refused = await api.expect((422, "validation-failed"), "PATCH", f"/v1/repositories/{made['id']}", body)
    assert refused.fields == fields


async def test_settings_of_a_repository_without_webhook(api: Api) -> None:
    for body in ({"push_deploys": False}, {"branch": "next", "host_id": None}):
        await api.expect((409, "conflict"), "PATCH", _shop(api), body)
    await api.expect((409, "conflict"), "POST", f"{_shop(api)}/webhook-secret")
    assert (await api.call("PATCH", _shop(api), {"branch": "next"})).data["branch"] == "next"


async def test_two_people_edit(api: Api) -> None:
    seen = await api.call("GET", _shop(api))
    headers = {"If-Match": seen.headers["ETag"]}
    assert (await api.call("PATCH", _shop(api), {"branch": "ada"}, headers=headers)).status == 200
    await api.expect((412, "precondition-failed"), "PATCH", _shop(api), {"branch": "bob"}, headers=headers)


async def test_replace_the_secret(api: Api) -> None:
    made = await _connect(api, GITLAB, secret="a-secret-token-of-GitLab", secret_kind="plain")
    path, number = f"/v1/repositories/{made['id']}/webhook-secret", made["id"]
    assert await _stored_secret(api, number) == ("plain", "a-secret-token-of-GitLab")
    # The present kind stays, because this GitLab may have no signing tokens.
    renewed = await api.call("POST", path)
    assert renewed.data["webhook"]["secret_kind"] == "plain"
    assert ("plain", renewed.data["webhook"]["secret"]) == await _stored_secret(api, number)
    signing = make_secret("gitlab").value
    assert (await api.call("POST", path, {"secret": signing})).data["secret_kind"] == "signing"
    assert await _stored_secret(api, number) == ("signing", signing)
    assert await api.audit(1) == [("repository.secret", f"repository {number}")]
    plain = await api.call("POST", path, {"secret_kind": "plain"})
    assert (plain.data["secret_kind"], await _audit_details(api)) == (
        "plain",
        ("repository.secret", '{"kind": "plain"}'),
    )
    refused = await api.expect((422, "validation-failed"), "POST", path, {"secret": "x" * 300})
    assert refused.fields == ["secret"]


async def test_first_secret_of_a_repository(api: Api) -> None:
    """A repository that was connected before webhooks existed has none."""
    assert api.platform.acme.repository is not None
    mine = Repository.id == api.platform.acme.repository.id
    async with api.platform.sessions() as session, session.begin():
        await session.execute(update(Repository).where(mine).values(kind="github"))
    assert (await api.read(_shop(api)))["secret_kind"] is None
    assert (await api.call("POST", f"{_shop(api)}/webhook-secret")).data["secret_kind"] == "hmac"


@pytest.mark.both_databases
async def test_one_of_concurrent_secrets_is_stored(api: Api) -> None:
    made = await _connect(api)
    path = f"/v1/repositories/{made['id']}/webhook-secret"
    answers = await asyncio.gather(*(api.call("POST", path) for _ in range(5)))
    _, stored = await _stored_secret(api, made["id"])
    assert stored in {answer.data["webhook"]["secret"] for answer in answers}


def _waiting_push(
    api: Api, repository_id: int, name: str = "shop/staging", branch: str = "main"
) -> WaitingPush:
    return WaitingPush(
        environment_id=api.platform.acme.environment(name).id,
        repository_id=repository_id,
        branch=branch,
        trigger="push",
        source="webhook",
        created_at=NOW,
    )


async def _count(api: Api, table: Any) -> int:
    async with api.platform.sessions() as session:
        return (await session.execute(select(func.count()).select_from(table))).scalar_one()


async def test_disconnection_removes_the_secret_and_waiting_pushes(api: Api) -> None:
    """Secrets and pushes of other repositories stay."""
    assert api.platform.acme.repository is not None
    made, other = await _connect(api), api.platform.acme.repository.id
    pushes, secrets = await _count(api, WaitingPush), await _count(api, SealedWebhookSecret)
    async with api.platform.sessions() as session, session.begin():
        for branch in ("main", "trunk"):
            session.add(_waiting_push(api, made["id"], "blog/staging", branch))
        session.add(_waiting_push(api, other))
    assert (await api.call("DELETE", f"/v1/repositories/{made['id']}")).status == 200
    assert (await _count(api, WaitingPush), await _count(api, SealedWebhookSecret)) == (
        pushes + 1,
        secrets - 1,
    )


@pytest.mark.both_databases
async def test_a_push_being_queued_does_not_block_the_disconnection(api: Api) -> None:
    """The worker that queues it has locked its row and waits for the repository: waiting for the row would deadlock."""
    assert api.platform.acme.repository is not None
    await api.platform.settle()
    async with api.platform.sessions() as session, session.begin():
        session.add(_waiting_push(api, api.platform.acme.repository.id))
    async with api.platform.sessions() as session, session.begin():
        if session.get_bind().dialect.name == "sqlite":
            # SQLite lets one transaction write at a time.
            return
        await session.execute(delete(WaitingPush))
        async with asyncio.timeout(30):
            assert (await api.call("DELETE", _shop(api))).status == 200


async def test_disconnection_cancels_waiting_deployments(api: Api) -> None:
    """A waiting promotion is not cancelled, because it deploys a release without a check-out."""
    acme = api.platform.acme
    async with api.platform.sessions() as session, session.begin():
        waits = {"status": "awaiting_approval", "needs_approval": True}
        waiting = await add_deployment(session, acme, "shop/production", NOW, **waits)
        built = await add_deployment(session, acme, "shop/staging", NOW)
        promotion = await add_deployment(
            session, acme, "shop/production", NOW, trigger="promotion", promoted_from_id=built.id, **waits
        )
        active = await add_deployment(session, acme, "shop/staging", NOW, status="running")
    refused = await api.expect((409, "conflict"), "DELETE", _shop(api))
    assert f"Deployment {active.id} of the project shop is running" in refused.json()["detail"]
    await api.platform.settle()
    assert (await api.call("DELETE", _shop(api))).status == 200
    async with api.platform.sessions() as session:
        query = select(Deployment.status).where(Deployment.id.in_([waiting.id, promotion.id]))
        statuses = (await session.scalars(query.order_by(Deployment.id))).all()
        lines, _ = await tail_log(session, waiting.id)
    assert statuses == ["canceled", "awaiting_approval"]
    assert lines[-1].text == "Canceled: the repository was disconnected."
    assert (await _audit_details(api))[1] == '{"url": "https://git.acme.example/shop.git", "canceled": 1}'


async def test_deployment_of_a_disconnected_repository_is_not_approved(api: Api) -> None:
    assert api.platform.acme.repository is not None
    mine = Repository.id == api.platform.acme.repository.id
    async with api.platform.sessions() as session, session.begin():
        waiting = await add_deployment(
            session,
            api.platform.acme,
            "shop/production",
            NOW,
            status="awaiting_approval",
            needs_approval=True,
        )
        await session.execute(update(Repository).where(mine).values(disconnected_at=NOW))
    await api.platform.settle()
    path = f"/v1/deployments/{waiting.id}/approve"
    refused = await api.expect((409, "conflict"), "POST", path, {}, by="maintainer")
    assert "was disconnected, and nothing is checked out" in refused.json()["detail"]


async def test_new_repository_replaces_the_sample(api: Api) -> None:
    path = f"/v1/projects/{api.platform.acme.projects['shop'].public_id}/repository"
    await api.expect((409, "conflict"), "POST", path, {"url": URL})
    async with api.platform.sessions() as session, session.begin():
        assert api.platform.acme.repository is not None
        mine = Repository.id == api.platform.acme.repository.id
        await session.execute(update(Repository).where(mine).values(is_sample=True))
        await add_deployment(session, api.platform.acme, "shop/staging", NOW, status="queued")
    await api.expect((409, "conflict"), "POST", path, {"url": URL})
    await api.platform.settle()
    assert (await api.call("POST", path, {"url": URL})).status == 201
    assert [action for action, _ in await api.audit(2)] == ["repository.connect", "repository.disconnect"]
    assert (await api.read(_shop(api)))["disconnected_at"] is not None


@pytest.mark.both_databases
async def test_one_of_concurrent_connections_replaces_the_sample(api: Api) -> None:
    assert api.platform.acme.repository is not None
    mine = Repository.id == api.platform.acme.repository.id
    await api.platform.settle()
    async with api.platform.sessions() as session, session.begin():
        await session.execute(update(Repository).where(mine).values(is_sample=True))
    path = f"/v1/projects/{api.platform.acme.projects['shop'].public_id}/repository"
    answers: list[Response] = await asyncio.gather(
        *(api.call("POST", path, {"url": f"https://git.example/{n}"}) for n in range(4))
    )
    assert sorted(answer.status for answer in answers) == [201, 409, 409, 409]
    assert [action for action, _ in await api.audit(3)] == ["repository.connect", "repository.disconnect"]

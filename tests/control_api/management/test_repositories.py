"""Repositories and the secrets of their webhooks."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select, update

from control_domain.repositories.local_folders import parse_local_folders
from control_domain.repositories.webhook_secrets import make_secret, open_secret
from control_domain.tables.audit import AuditEntry
from control_domain.tables.deployments import Deployment
from control_domain.tables.repositories import Repository
from control_domain.tables.webhooks import SealedWebhookSecret
from tests.control_api.management.conftest import Api
from tests.support.deploy_platform import Response, add_deployment
from tests.support.serve_control import VARIABLE_KEYS

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
URL = "git@github.com:acme/blog.git"
GITLAB = "https://gitlab.com/acme/blog"


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


async def _audit_details(api: Api) -> tuple[str, str]:
    query = select(AuditEntry.action, AuditEntry.details).order_by(AuditEntry.id.desc()).limit(1)
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


async def test_of_concurrent_connections_one_succeeds(api: Api) -> None:
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


async def test_disconnection_cancels_what_waits(api: Api) -> None:
    acme = api.platform.acme
    async with api.platform.sessions() as session, session.begin():
        waiting = await add_deployment(
            session, acme, "shop/production", NOW, status="awaiting_approval", needs_approval=True
        )
        active = await add_deployment(session, acme, "shop/staging", NOW, status="running")
    refused = await api.expect((409, "conflict"), "DELETE", _shop(api))
    assert f"Deployment {active.id} of the project shop is running" in refused.json()["detail"]
    await api.platform.settle()
    assert (await api.call("DELETE", _shop(api))).status == 200
    async with api.platform.sessions() as session:
        status = await session.scalar(select(Deployment.status).where(Deployment.id == waiting.id))
    assert status == "canceled"
    assert (await _audit_details(api))[1] == '{"url": "https://git.acme.example/shop.git", "canceled": 1}'


async def test_sample_gives_way(api: Api) -> None:
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

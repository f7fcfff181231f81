"""Previews: opened, listed, closed."""

import asyncio
import json
from typing import Any

import pytest
from sqlalchemy import select, update

from control_domain.sealing import Sealed
from control_domain.tables.audit import AuditEntry
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment, IngestKey
from control_domain.tables.variables import ProtectedVariable
from control_domain.variables.versions import find_newest_variables
from tests.control_api.management.conftest import Api
from tests.support.deploy_platform import Response
from tests.support.serve_control import VARIABLE_KEYS


def _path(api: Api, rest: str = "") -> str:
    return f"/v1/projects/{api.platform.acme.projects['shop'].public_id}/previews{rest}"


async def _open(api: Api, branch: str = "login", by: str = "deployer", **body: Any) -> dict[str, Any]:
    opened = await api.call("POST", _path(api), {"branch": branch, **body}, by=by)
    assert opened.status == 202, opened.body
    found: dict[str, Any] = opened.data
    return found


async def _set_status(api: Api, number: int, status: str) -> None:
    async with api.platform.sessions() as session, session.begin():
        await session.execute(update(Deployment).where(Deployment.id == number).values(status=status))


async def _details(api: Api, action: str) -> dict[str, Any]:
    query = select(AuditEntry.details).where(AuditEntry.action == action).order_by(AuditEntry.id.desc())
    async with api.platform.sessions() as session:
        found: dict[str, Any] = json.loads((await session.scalars(query.limit(1))).one())
        return found


async def test_open_list_close(api: Api) -> None:
    opened = await _open(api, "feature/Login")
    preview, deployment = opened["preview"], opened["deployment"]
    assert (preview["slug"], preview["name"]) == ("preview-feature-login", "Preview of feature/Login")
    assert (preview["type"], preview["branch"], preview["state"]) == ("preview", "feature/Login", "running")
    assert (preview["address"], preview["variables_from"], preview["closing"]) == (None, None, False)
    assert (deployment["environment_id"], deployment["status"]) == (preview["id"], "queued")
    assert preview["active_deployment"] == {"id": deployment["id"], "status": "queued"}
    assert [action for action, _ in await api.audit(2)] == ["deployment.queue", "environment.create"]
    # A queued deployment builds the head that the branch has when it starts.
    again = await _open(api, "feature/Login")
    assert (again["preview"]["id"], again["deployment"]["id"]) == (preview["id"], deployment["id"])
    await _open(api, "other")
    listed = await api.read_all(_path(api), limit=1)
    assert [each["branch"] for each in listed] == ["other", "feature/Login"]
    assert listed[1] == preview

    closed = await api.call("DELETE", _path(api, f"/{preview['id']}"), by="deployer")
    assert closed.data == {
        "id": preview["id"],
        "name": preview["name"],
        "slug": preview["slug"],
        "branch": "feature/Login",
        "removed": {"keys": 0, "heartbeats": 0, "queues": 0, "canceled": 0},
    }
    subject = f"environment {preview['id']}"
    assert await api.audit(2) == [
        ("environment.remove", subject),
        ("deployment.cancel", f"deployment {deployment['id']}"),
    ]
    assert [each["branch"] for each in await api.read(_path(api))] == ["other"]
    await api.expect((404, "not-found"), "DELETE", _path(api, f"/{preview['id']}"))


async def test_only_previews_of_the_project_are_closed(api: Api) -> None:
    acme = api.platform.acme
    production = acme.environment("shop/production").public_id
    opened = (await _open(api))["preview"]
    blog = f"/v1/projects/{acme.projects['blog'].public_id}/previews"
    for path in (_path(api, f"/{production}"), f"{blog}/{opened['id']}", _path(api, "/x")):
        await api.expect((404, "not-found"), "DELETE", path)


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["branch"]),
        ({"branch": "-x"}, ["branch"]),
        ({"branch": "a b", "variables_from": 7}, ["variables_from"]),
        ({"branch": "x" * 201}, ["branch"]),
        ({"branch": "login", "variables_from": "nowhere"}, ["variables_from"]),
    ],
)
async def test_invalid_previews(shared_api: Api, body: dict[str, Any], fields: list[str]) -> None:
    refused = await shared_api.call("POST", _path(shared_api), body)
    assert (refused.problem, refused.fields) == ((422, "validation-failed"), fields)


async def test_variables_of_another_project(shared_api: Api) -> None:
    for environment in (
        shared_api.platform.acme.environment("blog/production"),
        shared_api.platform.other.environment("shop/production"),
    ):
        body = {"branch": "login", "variables_from": environment.public_id}
        assert (await shared_api.call("POST", _path(shared_api), body)).fields == ["variables_from"]


async def test_variables_of_an_environment(api: Api) -> None:
    production = api.platform.acme.environment("shop/production")
    variables = f"/v1/environments/{production.public_id}/variables"
    assert (await api.call("PUT", variables, {"variables": "A=1\nSECRET=2\n"})).status == 200
    async with api.platform.sessions() as session, session.begin():
        session.add(ProtectedVariable(environment_id=production.id, name="SECRET"))
    await api.platform.change("shop/production", deploys_need_approval=True)

    opened = await _open(api, variables_from=production.public_id)
    preview = opened["preview"]
    assert opened["deployment"]["status"] == "awaiting_approval"
    assert preview["variables_from"]["slug"] == "production"
    assert preview["approval"]["deploys"] is True
    async with api.platform.sessions() as session:
        environment = (
            await session.scalars(select(Environment).where(Environment.public_id == preview["id"]))
        ).one()
        stored = await find_newest_variables(session, environment)
    assert stored is not None
    assert VARIABLE_KEYS.open(Sealed(stored.key_id, stored.sealed), preview["id"]) == {"A": "1"}

    # A deployer alone cannot close a preview that needs approvals.
    path = _path(api, f"/{preview['id']}")
    await api.expect((403, "deploy-not-allowed"), "DELETE", path, by="deployer")
    closed = await api.call("DELETE", path, by="maintainer")
    assert closed.data["removed"]["canceled"] == 1
    assert (await _details(api, "environment.remove"))["lowered"] == ["the environment itself"]


async def test_preview_that_is_being_deployed(api: Api) -> None:
    opened = await _open(api)
    path = _path(api, f"/{opened['preview']['id']}")
    await _set_status(api, opened["deployment"]["id"], "deploying")
    await api.expect((409, "deploy-running"), "POST", _path(api), {"branch": "login"})
    await _set_status(api, opened["deployment"]["id"], "running")
    await api.expect((409, "conflict"), "DELETE", path)
    await _set_status(api, opened["deployment"]["id"], "succeeded")
    assert (await api.call("DELETE", path)).status == 200


async def test_keys_are_revoked_at_the_edges(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    preview = (await _open(api))["preview"]
    async with api.platform.sessions() as session, session.begin():
        row = (await session.scalars(select(Environment).where(Environment.public_id == preview["id"]))).one()
        session.add(IngestKey(environment_id=row.id, digest=b"d" * 32, created_at=row.created_at))
    revoked: list[bytes] = []

    async def revoke(digest: bytes) -> None:
        # After the commit: another session no longer finds the preview.
        async with api.platform.sessions() as session:
            assert await session.get(Environment, row.id) is None
        revoked.append(digest)

    monkeypatch.setattr(api.platform.directory, "revoke", revoke)
    closed = await api.call("DELETE", _path(api, f"/{preview['id']}"))
    assert (closed.data["removed"]["keys"], revoked) == (1, [b"d" * 32])


@pytest.mark.both_databases
async def test_one_of_concurrent_requests_creates_the_preview(api: Api) -> None:
    answers: list[Response] = await asyncio.gather(
        *(api.call("POST", _path(api), {"branch": "login"}) for _ in range(4))
    )
    assert {answer.status for answer in answers} <= {202, 409}
    assert len(await api.read(_path(api))) == 1

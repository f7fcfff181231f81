"""Environments: created, read, changed, locked, resumed and removed."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select, update

from control_domain.projects.operations import live_ingest_keys
from control_domain.tables.audit import AuditEntry
from control_domain.tables.deployments import LiveRelease, Release
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.deploy_states import ACTIVE_STATUSES
from pipeline_contracts.errors import StorageUnavailable
from tests.control_api.management.conftest import Api
from tests.support.deploy_platform import add_deployment

NOW = datetime.now(UTC)


def _path(api: Api, name: str = "shop/production") -> str:
    return f"/v1/environments/{api.platform.acme.environment(name).public_id}"


async def _newest_details(api: Api) -> Any:
    query = select(AuditEntry.details).order_by(AuditEntry.id.desc()).limit(1)
    async with api.platform.sessions() as session:
        return json.loads((await session.execute(query)).scalar_one())


async def test_create_read_remove(api: Api) -> None:
    environments = f"/v1/projects/{api.platform.acme.projects['blog'].public_id}/environments"
    body = {"name": "QA tests", "type": "staging", "order": 7, "branch": "qa"}
    made = await api.call("POST", environments, body)
    assert made.status == 201
    assert made.data == {
        "id": made.data["id"],
        "number": made.data["number"],
        "name": "QA tests",
        "slug": "qa-tests",
        "type": "staging",
        "desired_replicas": 1,
        "state": "running",
        "project": {
            "id": api.platform.acme.projects["blog"].public_id,
            "name": "Blog",
            "slug": "blog",
        },
        "order": 7,
        "branch": "qa",
        "window": None,
        "approval": {"deploys": False, "variables": False},
        "wake_on_request": False,
        "lock": None,
        "live": None,
        "variables": None,
        "active_deployment": None,
        "waiting": {"deployments": [], "variable_changes": []},
        "created_at": made.data["created_at"],
    }
    assert await _newest_details(api) == {
        "project": made.data["project"]["id"],
        "name": "QA tests",
        "slug": "qa-tests",
        "type": "staging",
    }
    path = f"/v1/environments/{made.data['id']}"
    assert await api.read(path) == await api.read(f"/v1/environments/{made.data['number']}") == made.data
    await api.expect((409, "name-taken"), "POST", environments, body)
    removed = await api.call("DELETE", path)
    assert removed.data == {
        "id": made.data["id"],
        "name": "QA tests",
        "slug": "qa-tests",
        "removed": {"keys": 0, "heartbeats": 0, "queues": 0, "canceled": 0},
    }
    await api.expect((404, "not-found"), "GET", path)
    subject = f"environment {made.data['id']}"
    assert await api.audit(2) == [("environment.remove", subject), ("environment.create", subject)]


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["name", "type"]),
        ({"name": "QA", "type": "preview"}, ["type"]),
        ({"name": "", "type": "staging", "order": -1, "branch": ""}, ["name", "order", "branch"]),
        ({"name": "QA", "type": "staging", "order": 1001}, ["order"]),
        ({"name": "QA", "type": "staging", "order": True}, ["order"]),
        ({"name": "QA", "type": "staging", "branch": "a..b"}, ["branch"]),
        ({"name": "QA", "type": "staging", "slug": "12"}, ["slug"]),
        ({"name": "QA", "type": "staging", "slug": "q--a"}, ["slug"]),
        ({"name": "Q\x1b[31m", "type": "staging"}, ["name"]),
        ({"name": "東京", "type": "staging"}, ["slug"]),
    ],
)
async def test_invalid_environments(shared_api: Api, body: object, fields: list[str]) -> None:
    path = f"/v1/projects/{shared_api.platform.acme.projects['shop'].public_id}/environments"
    refused = await shared_api.expect((422, "validation-failed"), "POST", path, body)
    assert refused.fields == fields


async def test_pages_in_the_order_of_promotions(api: Api) -> None:
    path = f"/v1/projects/{api.platform.acme.projects['shop'].public_id}/environments"
    first = await api.call("GET", f"{path}?limit=2")
    assert [each["slug"] for each in first.data] == ["development", "staging"]
    made = await api.call("POST", path, {"name": "Quality", "type": "staging", "slug": "qa"})
    assert made.status == 201
    cursor = first.json()["next_cursor"]
    rest = await api.call("GET", f"{path}?limit=2&cursor={cursor}")
    assert [each["slug"] for each in rest.data] == ["qa", "production"]
    assert rest.json()["next_cursor"] is None
    everything = await api.read_all(path, limit=1)
    assert [each["slug"] for each in everything] == ["development", "staging", "qa", "production"]
    other = f"/v1/projects/{api.platform.acme.projects['blog'].public_id}/environments"
    assert (await api.call("GET", f"{other}?cursor={cursor}")).fields == ["cursor"]


async def test_live_and_waiting_deployments(api: Api) -> None:
    acme = api.platform.acme
    environment, built = acme.environment("shop/production"), acme.deployments["production"]
    async with api.platform.sessions() as session, session.begin():
        release = (
            await session.execute(
                update(Release)
                .where(Release.deployment_id == built.id)
                .values(workflow="{}")
                .returning(Release)
            )
        ).scalar_one()
        row = {"environment_id": environment.id, "release_id": release.id, "since": NOW, "held": True}
        session.add(LiveRelease(**row, deployment_id=built.id))
        waiting = [
            await add_deployment(session, acme, "shop/production", NOW, status="awaiting_approval")
            for _ in range(2)
        ]
        active = await add_deployment(session, acme, "shop/production", NOW, status="deploying")
    await api.platform.call("PUT", f"{_path(api)}/variables", {"variables": "A=1\nB=2"})
    seen = await api.read(_path(api))
    assert seen["live"] == {
        "deployment_id": built.id,
        "revision": built.revision,
        "since": seen["live"]["since"],
        "held": True,
    }
    assert seen["variables"] == {"version": 1, "count": 2}
    assert seen["active_deployment"] == {"id": active.id, "status": "deploying"}
    assert seen["waiting"] == {"deployments": [each.id for each in waiting[::-1]], "variable_changes": []}

    resumed = await api.call("POST", f"{_path(api)}/resume", by="deployer")
    assert (resumed.data["resumed"], resumed.data["live"]["held"]) == (True, False)
    assert (await api.audit(1))[0][0] == "environment.resume"
    again = await api.call("POST", f"{_path(api)}/resume")
    assert again.data["resumed"] is False
    assert (await api.audit(1))[0][0] == "environment.resume"


async def test_change_settings(api: Api) -> None:
    path = _path(api)
    body = {
        "name": " Live ",
        "order": 9,
        "branch": "live",
        "window": "fri,sat 22:00-02:00",
        "approval": {"variables": True},
        "wake_on_request": True,
        "unknown": 1,
    }
    changed = await api.call("PATCH", path, body, by="maintainer")
    settings = {
        "name": "Live",
        "order": 9,
        "branch": "live",
        "window": "fri,sat 22:00-02:00 UTC",
        "approval": {"deploys": False, "variables": True},
        "wake_on_request": True,
    }
    assert changed.data.items() >= settings.items()
    assert changed.data["gated_previews"] == []
    assert await _newest_details(api) == {
        "name": {"from": "Production", "to": "Live"},
        "order": {"from": 3, "to": 9},
        "branch": {"from": None, "to": "live"},
        "window": {"from": None, "to": "fri,sat 22:00-02:00 UTC"},
        "approval": {
            "from": {"deploys": False, "variables": False},
            "to": {"deploys": False, "variables": True},
        },
        "wake_on_request": {"from": False, "to": True},
    }
    # `null` is the same as absent, except for the branch and the window.
    before = await api.platform.contents()
    same = await api.call("PATCH", path, {"name": None, "order": None, "approval": {"variables": None}})
    assert same.status == 200
    assert await api.platform.contents() == before
    cleared = await api.call("PATCH", path, {"branch": None})
    assert cleared.data["branch"] is None


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"name": "\t"}, ["name"]),
        ({"name": "", "order": "1", "branch": 1, "window": "", "wake_on_request": 1}, None),
        ({"branch": "-x"}, ["branch"]),
        ({"window": "sometimes"}, ["window"]),
        ({"window": "mon-thu 09:00-16:00 Mars/Base"}, ["window"]),
        ({"window": "mon-thu 09:00-16:00 ../../etc/passwd"}, ["window"]),
        ({"window": "mon 09:00-25:00"}, ["window"]),
        ({"approval": {"deploys": 1}}, ["approval.deploys"]),
        ({"approval": []}, ["approval"]),
    ],
)
async def test_invalid_settings(shared_api: Api, body: dict[str, Any], fields: list[str] | None) -> None:
    refused = await shared_api.expect((422, "validation-failed"), "PATCH", _path(shared_api), body)
    assert refused.fields == (list(body) if fields is None else fields)


async def test_two_people_edit(api: Api) -> None:
    path = _path(api)
    etag = (await api.call("GET", path)).headers["ETag"]
    # The lock is not one of the settings.
    await api.call("PUT", f"{path}/lock", {"reason": "sale"})
    assert (await api.call("GET", path)).headers["ETag"] == etag
    changed = await api.call("PATCH", path, {"order": 5}, headers={"If-Match": etag})
    assert changed.status == 200
    refused = await api.expect(
        (412, "precondition-failed"), "PATCH", path, {"order": 6}, headers={"If-Match": etag}
    )
    assert refused.headers["ETag"] == changed.headers["ETag"] == (await api.call("GET", path)).headers["ETag"]


async def test_one_person_does_not_lower_a_gate(api: Api) -> None:
    path = _path(api)
    # Without approvals, a window is not a gate.
    await api.call("PATCH", path, {"window": "mon-thu 09:00-16:00"})
    assert (await api.call("PATCH", path, {"window": None})).status == 200
    raised = {"window": "mon-thu 09:00-16:00", "approval": {"deploys": True, "variables": True}}
    assert (await api.call("PATCH", path, raised)).status == 200
    for lowered in (
        {"approval": {"deploys": False}},
        {"approval": {"variables": False}},
        {"window": None},
        {"window": "mon-thu 09:00-17:00"},
        {"window": "mon-thu 09:00-16:00 Europe/Oslo"},
        {"name": "Other", "approval": {"deploys": False}, "window": None},
    ):
        refused = await api.expect((409, "second-person-required"), "PATCH", path, lowered)
        assert "configuration review" in refused.json()["detail"]
    await api.expect((409, "second-person-required"), "DELETE", path)
    # A change that keeps or raises the gate needs no second person.
    assert (await api.call("PATCH", path, {"window": "mon-wed 10:00-16:00"})).status == 200


async def test_gate_of_a_preview(api: Api) -> None:
    """Configurations do not contain previews."""
    await api.platform.change("shop/development", type="preview", deploys_need_approval=True)
    path = _path(api, "shop/development")
    for method, body in (("PATCH", {"approval": {"deploys": False}}), ("DELETE", None)):
        refused = await api.expect((409, "second-person-required"), method, path, body)
        assert "Close the preview instead" in refused.json()["detail"]


async def test_gate_raised_meanwhile_applies(api: Api) -> None:
    """The removal and the change wait for the transaction that raises the gate."""
    outcomes = await asyncio.gather(
        api.call("PATCH", _path(api), {"approval": {"deploys": True}}),
        *(api.call("PATCH", _path(api), {"approval": {"deploys": False}}) for _ in range(3)),
    )
    assert {outcome.status for outcome in outcomes[1:]} <= {200, 409}
    assert (await api.read(_path(api)))["approval"]["deploys"] is True


async def test_previews_with_copies_get_the_gate(api: Api) -> None:
    acme = api.platform.acme
    source = acme.environment("shop/production").id
    await api.platform.change("shop/development", variables_of_id=source)
    changed = await api.call("PATCH", _path(api), {"approval": {"deploys": True}})
    assert changed.data["gated_previews"] == ["development"]
    assert (await api.read(_path(api, "shop/development")))["approval"]["deploys"] is True
    assert [action for action, _ in await api.audit(2)] == ["environment.set", "environment.set"]


async def test_lock(api: Api) -> None:
    path = f"{_path(api)}/lock"
    await api.expect((404, "not-found"), "DELETE", path)
    locked = await api.call("PUT", path, {"reason": " sale "}, by="deployer")
    lock = locked.data["lock"]
    assert (lock["reason"], lock["by"]["email"]) == ("sale", "deployer@acme.example")
    # Locking again is no change for the same person and reason, and refused for others.
    before = await api.platform.contents()
    assert (await api.call("PUT", path, {"reason": "sale"}, by="deployer")).data["lock"] == lock
    assert await api.platform.contents() == before
    for body, by in (({"reason": "sale"}, "owner"), ({"reason": "other"}, "deployer")):
        refused = await api.expect((409, "conflict"), "PUT", path, body, by=by)
        assert "deployer@acme.example since" in refused.json()["detail"]
    for reason in ("", " ", "x" * 501, "a\nb", "nul\0", 1, None):
        await api.expect((422, "validation-failed"), "PUT", path, {"reason": reason})
    assert (await api.read(_path(api)))["lock"] == lock
    assert (await api.call("DELETE", path)).data["lock"] is None
    assert await _newest_details(api) == {"reason": "sale", "by": "deployer@acme.example"}
    assert [action for action, _ in await api.audit(2)] == ["environment.unlock", "environment.lock"]


async def test_removal_revokes_keys_and_cancels_waiting_deployments(api: Api) -> None:
    platform = api.platform
    async with platform.sessions() as session, session.begin():
        waiting = await add_deployment(
            session, platform.acme, "shop/production", NOW, status="awaiting_approval", needs_approval=True
        )
        entries = await live_ingest_keys(session, NOW)
    digest = digest_credential(platform.acme.ingest_key)
    for entry in entries:
        await platform.directory.publish(entry)
    assert await platform.directory.find(digest) is not None
    removed = await api.call("DELETE", _path(api), by="maintainer")
    assert (removed.data["removed"]["keys"] >= 1, removed.data["removed"]["canceled"]) == (True, 1)
    assert await platform.directory.find(digest) is None
    seen = (await platform.call("GET", f"/v1/deployments/{waiting.id}")).data
    assert (seen["status"], seen["environment_id"]) == ("canceled", None)


@pytest.mark.parametrize("status", ACTIVE_STATUSES)
async def test_remove_waits_for_the_active_deployment(api: Api, status: str) -> None:
    async with api.platform.sessions() as session, session.begin():
        active = await add_deployment(session, api.platform.acme, "shop/production", NOW, status=status)
    refused = await api.expect((409, "deploy-running"), "DELETE", _path(api))
    assert refused.json()["active_deployment_id"] == active.id


async def test_remove_while_edges_cannot_be_informed(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment is removed nevertheless, and the response has a warning."""

    async def fail(*_: Any) -> None:
        raise StorageUnavailable("Redis is away.")

    monkeypatch.setattr(type(api.platform.directory), "revoke", fail)
    removed = await api.call("DELETE", _path(api))
    assert removed.status == 200 and "Redis is away." in removed.json()["warning"]
    assert (await api.call("GET", _path(api))).problem == (404, "not-found")


async def test_overviews_of_all_environments_that_the_caller_may_read(api: Api) -> None:
    acme = api.platform.acme
    async with api.platform.sessions() as session, session.begin():
        failed = await add_deployment(session, acme, "shop/production", NOW, status="failed", finished_at=NOW)
        number = failed.id
    everything = await api.read_all("/v1/environments")
    names = [(each["project"]["slug"], each["order"]) for each in everything]
    assert {slug for slug, _ in names} == {project.slug for project in acme.projects.values()}
    # The newest project first, and its environments in the order of promotion.
    newest_first = sorted(acme.projects.values(), key=lambda project: -project.id)
    places = {project.slug: place for place, project in enumerate(newest_first)}
    assert names == sorted(names, key=lambda name: (places[name[0]], name[1]))
    shop = await api.read(f"/v1/environments?project={acme.projects['shop'].public_id}", by="viewer")
    assert {each["project"]["slug"] for each in shop} == {"shop"}
    assert await api.read("/v1/environments", by="viewer") == shop
    production = next(each for each in shop if each["slug"] == "production")
    details = await api.read(_path(api))
    assert production == {
        **details,
        "address": None,
        "running": 0,
        "desired": 0 if details["live"] is None else production["desired"],
        "live_deployment": production["live_deployment"],
        "newest_deployment": production["newest_deployment"],
    }
    assert production["newest_deployment"]["id"] == number
    assert await api.read("/v1/environments", by="stranger") == []
    other = await api.platform.call("GET", "/v1/environments", token=api.platform.other.token())
    assert {each["id"] for each in other.data}.isdisjoint(each["id"] for each in everything)
    await api.expect((404, "not-found"), "GET", "/v1/environments?project=prj_none")

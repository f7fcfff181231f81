"""Deployments and releases of an environment; approving, rejecting and canceling deployments."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select

from control_domain.tables.audit import AuditEntry
from control_domain.tables.deployments import Deployment, LiveRelease, Release
from control_domain.tables.projects import EnvironmentLock
from pipeline_contracts.deploy_states import DeploymentStatus
from tests.control_api.management.conftest import Api
from tests.support.deploy_platform import add_deployment, add_succeeded

NOW = datetime.now(UTC)
NAME = "shop/production"
COMMIT = "c" * 40


def _path(api: Api, rest: str, name: str = NAME) -> str:
    return f"/v1/environments/{api.platform.acme.environment(name).public_id}/{rest}"


async def _gated(api: Api) -> None:
    await api.platform.change(NAME, deploys_need_approval=True)


async def _wait(api: Api, ref: str | None = COMMIT, by: str = "deployer") -> int:
    """Request a deployment that waits for approval. Its commit is known if `ref` is a commit."""
    await _gated(api)
    token = api.platform.acme.token(by)
    body = {} if ref is None else {"ref": ref}
    asked = await api.platform.call("POST", _path(api, "deploy"), body, token=token)
    assert asked.status == 202, asked.body
    number: int = asked.data["id"]
    if ref == COMMIT:
        async with api.platform.sessions() as session, session.begin():
            (await session.get_one(Deployment, number)).revision = COMMIT
    return number


async def _set(api: Api, name: str, by: str) -> None:
    path = _path(api, f"variables/{name}")
    assert (await api.call("PUT", path, {"value": "1"}, by=by)).status == 200


async def test_details_name_the_steps_and_the_fate_of_the_release(api: Api) -> None:
    progress = {"check_out": "2026-11-20T12:00:00.000Z", "build": "2026-11-20T12:00:02.000Z"}
    acme = api.platform.acme
    async with api.platform.sessions() as session, session.begin():
        values = {"commit_subject": "Add a cart", "commit_author": "Ada", "progress": json.dumps(progress)}
        made = await add_succeeded(session, acme, NAME, NOW, **values)
        failed = await add_deployment(session, acme, NAME, NOW, status="failed", finished_at=NOW)
        release = select(Release.id).where(Release.deployment_id == made.id)
        live = LiveRelease(environment_id=acme.environment(NAME).id, since=NOW)
        live.release_id = (await session.execute(release)).scalar_one()
        await session.merge(live)
        number, other = made.id, failed.id
    found = await api.read(f"/v1/deployments/{number}/details", by="viewer")
    assert [(step["step"], step["started_at"], step["ended_at"]) for step in found["steps"]] == [
        ("check_out", progress["check_out"], progress["build"]),
        ("build", progress["build"], found["finished_at"]),
    ]
    assert (found["is_live"], found["is_retained"], found["live_deployment_id"]) == (True, True, number)
    assert (found["commit_subject"], found["asked_by"]["name"]) == ("Add a cart", "owner of Acme")
    assert found["repository"]["kind"] == "git"
    not_live = await api.read(f"/v1/deployments/{other}/details")
    assert (not_live["is_live"], not_live["is_retained"], not_live["steps"]) == (False, False, [])
    assert not_live["live_revision"] == found["revision"]
    again = await api.call("POST", f"/v1/deployments/{number}/rollback")
    assert (await api.read(f"/v1/deployments/{again.data['id']}/details"))["commit_subject"] == "Add a cart"


async def _digest(api: Api, number: int) -> str:
    waiting = await api.read("/v1/approvals")
    [found] = [
        each["deployment"]
        for each in waiting
        if each["deployment"] and each["deployment"]["deployment"]["id"] == number
    ]
    digest: str = found["digest"]
    return digest


async def _audited(api: Api) -> tuple[str, str, Any]:
    query = select(AuditEntry).order_by(AuditEntry.id.desc()).limit(1)
    async with api.platform.sessions() as session:
        entry = (await session.execute(query)).scalar_one()
    return entry.action, entry.subject, json.loads(entry.details)


async def test_pages_of_deployments_while_others_are_queued(api: Api) -> None:
    path = _path(api, "deployments")
    acme = api.platform.acme

    async def add(**values: Any) -> int:
        async with api.platform.sessions() as session, session.begin():
            return (await add_deployment(session, acme, NAME, NOW, **values)).id

    numbers = [acme.deployments["production"].id, *[await add(status="failed") for _ in range(4)]]
    first = await api.call("GET", f"{path}?limit=2")
    await add(status="canceled")
    rest = await api.call("GET", f"{path}?limit=4&cursor={first.json()['next_cursor']}")
    assert [each["id"] for each in [*first.data, *rest.data]] == numbers[::-1]
    assert rest.json()["next_cursor"] is None
    failed = await api.read_all(f"{path}?status=failed", limit=3)
    assert [each["id"] for each in failed] == numbers[:0:-1]
    assert [each["status"] for each in await api.read(f"{path}?status=canceled", by="viewer")] == ["canceled"]
    for status in ("done", "null", ""):
        assert (await api.call("GET", f"{path}?status={status}")).fields == ["status"]
    other = _path(api, "deployments", "shop/staging")
    assert (await api.call("GET", f"{other}?cursor={first.json()['next_cursor']}")).fields == ["cursor"]


async def test_deployments_of_a_project(api: Api) -> None:
    acme = api.platform.acme
    path = f"/v1/projects/{acme.projects['shop'].public_id}/deployments"
    before = [each["id"] for each in await api.read_all(path, limit=2)]
    assert before == sorted((each.id for each in acme.deployments.values()), reverse=True)
    async with api.platform.sessions() as session, session.begin():
        of_removed = await add_deployment(session, acme, NAME, NOW, status="canceled")
        of_removed.environment_id = None
    newest, *_ = await api.read(f"{path}?limit=1", by="viewer")
    assert (newest["id"], newest["environment"], newest["environment_id"]) == (of_removed.id, None, None)
    assert newest["project"]["slug"] == "shop"
    assert [each["id"] for each in await api.read(f"{path}?status=canceled")] == [of_removed.id]
    other = f"/v1/projects/{acme.projects['blog'].public_id}/deployments"
    assert await api.read(other) == []
    cursor = (await api.call("GET", f"{path}?limit=1")).json()["next_cursor"]
    assert (await api.call("GET", f"{other}?cursor={cursor}")).fields == ["cursor"]


async def test_deployment_details(api: Api) -> None:
    acme = api.platform.acme
    owner = acme.people["owner"]
    [shown] = await api.read(_path(api, "deployments"))
    documented = (await api.platform.call("GET", f"/v1/deployments/{shown['id']}")).data
    assert shown == {
        **documented,
        "project": {"id": acme.projects["shop"].public_id, "name": "Shop", "slug": "shop"},
        "environment": {
            "id": acme.environment(NAME).public_id,
            "name": "Production",
            "slug": "production",
        },
        "rolled_back_to_build_id": None,
        "commit_subject": None,
        "commit_author": None,
        "note": None,
        "asked_by": {"id": owner.public_id, "name": owner.name, "email": owner.email},
        "decided_by": None,
        "decided_at": None,
    }


async def test_releases(api: Api) -> None:
    acme = api.platform.acme
    environment = acme.environment(NAME)
    async with api.platform.sessions() as session, session.begin():
        live, removed, failed = [
            await add_succeeded(session, acme, NAME, NOW, **values)
            for values in ({}, {}, {"status": DeploymentStatus.FAILED.value})
        ]
        query = select(Release).where(Release.deployment_id.in_([live.id, removed.id]))
        releases = {row.deployment_id: row for row in (await session.execute(query)).scalars()}
        releases[removed.id].removed_at = NOW
        row = {"environment_id": environment.id, "release_id": releases[live.id].id, "since": NOW}
        session.add(LiveRelease(**row, held=True, deployment_id=failed.id))
    oldest = acme.deployments["production"]
    shown = await api.read_all(_path(api, "releases"), limit=1)
    assert shown == [
        {
            "deployment_id": live.id,
            "revision": live.revision,
            "variables_version": None,
            "created_at": shown[0]["created_at"],
            "live": {"since": shown[0]["live"]["since"], "deployment_id": failed.id, "held": True},
        },
        {
            "deployment_id": oldest.id,
            "revision": oldest.revision,
            "variables_version": None,
            "created_at": shown[1]["created_at"],
            "live": None,
        },
    ]


async def test_approve(api: Api) -> None:
    number = await _wait(api)
    approved = await api.call("POST", f"/v1/deployments/{number}/approve", by="maintainer")
    assert approved.status == 200
    assert (approved.data["status"], approved.data["revision"]) == ("queued", COMMIT)
    assert approved.data["decided_by"]["email"] == "maintainer@acme.example"
    async with api.platform.sessions() as session:
        digest = (await session.get_one(Deployment, number)).approved_digest
    assert await _audited(api) == (
        "deployment.approve",
        f"deployment {number}",
        {"revision": COMMIT, "digest": digest},
    )
    for decision in ("approve", "reject"):
        refused = await api.expect(
            (409, "conflict"), "POST", f"/v1/deployments/{number}/{decision}", {"reason": "no"}
        )
        assert f"Deployment {number} is queued: only a deployment that waits" in refused.json()["detail"]


@pytest.mark.parametrize("by", ["maintainer", "deployer"])
async def test_a_finished_deployment_is_refused_for_its_status(api: Api, by: str) -> None:
    """The refusal does not name the requester or changed inputs, because these no longer matter."""
    number = await _wait(api, by=by)
    await api.call("POST", f"/v1/deployments/{number}/cancel", by=by)
    await api.call("PUT", _path(api, "variables/A"), {"value": "1"}, by="deployer")
    for decision, body in (("approve", None), ("reject", {"reason": "no"})):
        refused = await api.expect(
            (409, "conflict"), "POST", f"/v1/deployments/{number}/{decision}", body, by="maintainer"
        )
        assert f"Deployment {number} is canceled: only a deployment that waits" in refused.json()["detail"]


async def test_requester_does_not_decide(api: Api) -> None:
    number = await _wait(api, by="maintainer")
    for decision, body in (("approve", None), ("reject", {"reason": "no"})):
        path = f"/v1/deployments/{number}/{decision}"
        await api.expect((409, "second-person-required"), "POST", path, body, by="maintainer")
        await api.expect((403, "deploy-not-allowed"), "POST", path, body, by="deployer")
        other = await api.platform.call("POST", path, body, token=api.platform.other.token())
        assert other.problem == (404, "not-found")
    canceled = await api.call("POST", f"/v1/deployments/{number}/cancel", by="maintainer")
    assert canceled.data["status"] == "canceled"


async def test_unknown_commit_is_named_by_the_approver(api: Api) -> None:
    number = await _wait(api, "main")
    path = f"/v1/deployments/{number}/approve"
    refused = await api.expect((409, "commit-unknown"), "POST", path, {})
    assert "a deployer is looking it up" in refused.json()["detail"]
    for revision in ("main", "c" * 39, "g" * 40, "c" * 41, "c" * 40 + "\n", 7):
        refused = await api.expect((422, "validation-failed"), "POST", path, {"revision": revision})
        assert refused.fields == ["revision"]
    assert (await api.call("POST", path, {"revision": COMMIT.upper()})).data["revision"] == COMMIT


async def test_known_commit_is_not_another(api: Api) -> None:
    number = await _wait(api)
    path = f"/v1/deployments/{number}/approve"
    refused = await api.expect((409, "conflict"), "POST", path, {"revision": "d" * 40})
    assert COMMIT in refused.json()["detail"]


async def test_changed_inputs_need_their_digest(api: Api) -> None:
    number = await _wait(api)
    path, seen = f"/v1/deployments/{number}/approve", await _digest(api, number)
    await _set(api, "A", by="owner")
    for digest in (None, seen, seen[:16]):
        refused = await api.expect((409, "inputs-changed"), "POST", path, {"digest": digest}, by="maintainer")
        assert "variables changed" in refused.json()["detail"]
    for invalid in ("abc", "x" * 16, "a" * 65, seen + "\n", 7):
        assert (await api.call("POST", path, {"digest": invalid})).fields == ["digest"]
    new = (await _digest(api, number))[:16].upper()
    assert (await api.call("POST", path, {"digest": new}, by="maintainer")).status == 200


async def test_author_of_any_changed_variable_does_not_approve(api: Api) -> None:
    """An update keeps the variables of the version before, with their authors; a replacement of all variables does
    not."""
    await _set(api, "BEFORE", by="admin")
    number = await _wait(api)
    await _set(api, "HERS", by="maintainer")
    await _set(api, "HIS", by="owner")
    path, body = f"/v1/deployments/{number}/approve", {"digest": await _digest(api, number)}
    for author in ("maintainer", "owner"):
        refused = await api.expect((409, "second-person-required"), "POST", path, body, by=author)
        assert "has changed the variables" in refused.json()["detail"]
    all_of_them = {"variables": "NEW=1"}
    token = api.platform.acme.token("owner")
    assert (await api.platform.call("PUT", _path(api, "variables"), all_of_them, token=token)).status == 200
    body = {"digest": await _digest(api, number)}
    await api.expect((409, "second-person-required"), "POST", path, body, by="owner")
    assert (await api.call("POST", path, body, by="maintainer")).status == 200


async def test_approval_checks_the_environment(api: Api) -> None:
    number = await _wait(api)
    path = f"/v1/deployments/{number}/approve"
    await api.platform.change(NAME, state="hibernated")
    await api.expect((422, "environment-not-ready"), "POST", path)
    tomorrow = f"{datetime.now(UTC) + timedelta(days=1):%a}".lower()
    window = json.dumps({"days": [tomorrow], "from": "10:00", "to": "11:00"})
    await api.platform.change(NAME, state="running", deploy_window=window)
    await api.expect((422, "outside-window"), "POST", path)
    await api.platform.change(NAME, deploy_window=None)
    environment = api.platform.acme.environment(NAME)
    async with api.platform.sessions() as session, session.begin():
        lock = EnvironmentLock(environment_id=environment.id, reason="sale", locked_at=NOW)
        session.add(lock)
    await api.expect((422, "environment-locked"), "POST", path)
    async with api.platform.sessions() as session, session.begin():
        await session.delete(await session.get_one(EnvironmentLock, environment.id))
        active = await add_deployment(session, api.platform.acme, NAME, NOW, status="deploying")
    refused = await api.expect((409, "deploy-running"), "POST", path)
    assert refused.json()["active_deployment_id"] == active.id


async def test_reject(api: Api) -> None:
    number = await _wait(api)
    path = f"/v1/deployments/{number}/reject"
    for reason in ("", "a\tb", None):
        await api.expect((422, "validation-failed"), "POST", path, {"reason": reason})
    rejected = await api.call("POST", path, {"reason": "wrong branch"}, by="maintainer")
    assert (rejected.data["status"], rejected.data["decided_by"]["name"]) == (
        "rejected",
        "maintainer of Acme",
    )
    assert await _audited(api) == (
        "deployment.reject",
        f"deployment {number}",
        {"reason": "wrong branch"},
    )


@pytest.mark.parametrize("status", list(DeploymentStatus))
async def test_cancel(api: Api, status: DeploymentStatus) -> None:
    async with api.platform.sessions() as session, session.begin():
        number = (await add_deployment(session, api.platform.acme, NAME, NOW, status=status.value)).id
    path = f"/v1/deployments/{number}/cancel"
    if status in ("queued", "awaiting_approval", "deploying"):
        assert (await api.call("POST", path, by="deployer")).data["status"] == "canceled"
        assert await _audited(api) == ("deployment.cancel", f"deployment {number}", {})
    else:
        refused = await api.expect((409, "conflict"), "POST", path)
        verb = "has" if status in ("succeeded", "failed") else "is"
        assert f"Deployment {number} {verb} {status}: only a deployment that" in refused.json()["detail"]


@pytest.mark.both_databases
async def test_one_of_many_decisions_wins(api: Api) -> None:
    number = await _wait(api)
    answers = await asyncio.gather(
        *(api.call("POST", f"/v1/deployments/{number}/approve", by=by) for by in ("owner", "admin") * 2),
        *(
            api.call("POST", f"/v1/deployments/{number}/reject", {"reason": "no"}, by=by)
            for by in ("owner", "maintainer") * 2
        ),
    )
    assert sorted(answer.status for answer in answers) == [200, *[409] * 7]


async def test_repeated_approval(api: Api) -> None:
    number = await _wait(api)
    path, headers = f"/v1/deployments/{number}/approve", {"Idempotency-Key": "one"}
    first = await api.call("POST", path, headers=headers)
    again = await api.call("POST", path, headers=headers)
    assert (first.status, again.status, again.data) == (200, 200, first.data)


async def test_deployment_of_a_removed_environment(api: Api) -> None:
    async with api.platform.sessions() as session, session.begin():
        waiting = await add_deployment(session, api.platform.acme, NAME, NOW, status="awaiting_approval")
        waiting.environment_id = None
    refused = await api.expect((409, "conflict"), "POST", f"/v1/deployments/{waiting.id}/approve", by="admin")
    assert "was removed" in refused.json()["detail"]

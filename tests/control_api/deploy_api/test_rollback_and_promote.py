"""`POST /v1/deployments/{build}/rollback` and `…/promote`."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select, update

from control_domain.projects.operations import create_environment
from control_domain.tables.audit import AuditEntry
from control_domain.tables.deployments import Deployment, Release
from control_domain.tables.projects import EnvironmentLock
from control_domain.tables.repositories import Repository
from pipeline_contracts.deploy_states import DeploymentStatus
from tests.support.deploy_platform import Platform, Response, add_deployment, add_succeeded

NOW = datetime.now(UTC)


async def _roll_back(platform: Platform, build: object, **options: Any) -> Response:
    return await platform.call("POST", f"/v1/deployments/{build}/rollback", **options)


async def _promote(
    platform: Platform, build: object, target: Any, note: Any = None, **options: Any
) -> Response:
    body = {"target_environment_id": target, "promotion_note": note}
    return await platform.call("POST", f"/v1/deployments/{build}/promote", body, **options)


async def _remove_release(platform: Platform, deployment: Deployment) -> None:
    async with platform.sessions() as session, session.begin():
        query = update(Release).where(Release.deployment_id == deployment.id)
        await session.execute(query.values(removed_at=NOW))


async def test_rollback_and_promotion_need_no_repository(platform: Platform) -> None:
    """The deployment keeps the repository that it was built from."""
    old = platform.acme.deployments["development"]
    async with platform.sessions() as session, session.begin():
        await session.execute(update(Repository).values(disconnected_at=NOW))
    staging = platform.acme.environment("shop/staging").public_id
    for answer in (await _roll_back(platform, old.id), await _promote(platform, old.id, staging)):
        assert (answer.status, answer.data["repository_id"]) == (202, old.repository_id)


async def test_rollback_queues_the_release_again(platform: Platform) -> None:
    acme = platform.acme
    async with platform.sessions() as session, session.begin():
        await add_succeeded(session, acme, "shop/production", NOW, revision="b" * 40)
    old = acme.deployments["production"]
    answer = await _roll_back(platform, old.id, token=acme.token("deployer"))
    assert answer.status == 202
    assert answer.data == {
        "id": answer.data["id"],
        "repository_id": old.repository_id,
        "environment_id": acme.environment("shop/production").public_id,
        "status": "queued",
        "trigger": "rollback",
        "revision": old.revision,
        "ref": None,
        "promoted_from_build_id": None,
        "created_at": answer.data["created_at"],
        "finished_at": None,
    }
    assert (await platform.call("GET", f"/v1/deployments/{answer.data['id']}")).data == answer.data
    async with platform.sessions() as session:
        row = await session.get_one(Deployment, answer.data["id"])
        assert (row.rolled_back_to_id, row.asked_by_id) == (old.id, acme.people["deployer"].id)
    # A rollback is active like any other deployment.
    again = await _roll_back(platform, old.id)
    assert (again.problem, again.json()["active_deployment_id"]) == (
        (409, "deploy-running"),
        answer.data["id"],
    )


@pytest.mark.both_databases
async def test_rollback_to_a_rollback_uses_its_release(platform: Platform) -> None:
    old = platform.acme.deployments["production"]
    async with platform.sessions() as session, session.begin():
        back = await add_deployment(
            session,
            platform.acme,
            "shop/production",
            NOW,
            trigger="rollback",
            rolled_back_to_id=old.id,
            revision=old.revision,
        )
    answer = await _roll_back(platform, back.id)
    assert (answer.status, answer.data["revision"]) == (202, old.revision)
    async with platform.sessions() as session:
        assert (await session.get_one(Deployment, answer.data["id"])).rolled_back_to_id == old.id
    await platform.settle()
    await _remove_release(platform, old)
    assert (await _roll_back(platform, back.id)).problem == (422, "not-retained")


async def test_rollback_needs_no_approval(platform: Platform) -> None:
    await platform.change("shop/production", deploys_need_approval=True)
    answer = await _roll_back(platform, platform.acme.deployments["production"].id)
    assert (answer.status, answer.data["status"]) == (202, "queued")


async def test_rollback_without_retained_release_is_refused(platform: Platform) -> None:
    """A promotion is refused as well."""
    acme = platform.acme
    builds = {"removed": acme.deployments["development"]}
    await _remove_release(platform, builds["removed"])
    async with platform.sessions() as session, session.begin():
        for status in DeploymentStatus:
            builds[status] = await add_deployment(session, acme, "shop/staging", NOW, status=status.value)
            await session.flush()
            # The environment can have only one active deployment.
            builds[status].environment_id = None
        with_release = await add_succeeded(session, acme, "shop/staging", NOW, status="failed")
        builds["failed, with a release"] = with_release
        of_a_removed = await add_succeeded(session, acme, "shop/staging", NOW)
        of_a_removed.environment_id = None
        builds["its environment was removed"] = of_a_removed
    before = await platform.contents()
    target = acme.environment("shop/production").public_id
    for what, build in builds.items():
        answer = await _roll_back(platform, build.id)
        assert (answer.problem, answer.fields) == ((422, "not-retained"), ["build"]), what
        answer = await _promote(platform, build.id, target)
        assert (answer.problem, answer.fields) == ((422, "not-promotable"), ["build"]), what
    assert await platform.contents() == before


@pytest.mark.both_databases
@pytest.mark.parametrize(
    "slugs", [("development", "staging"), ("development", "production"), ("staging", "production")]
)
async def test_promotion_goes_to_a_later_environment(shared: Platform, slugs: tuple[str, str]) -> None:
    build = shared.acme.deployments[slugs[0]]
    to = shared.acme.environment(f"shop/{slugs[1]}")
    for target in (to.public_id, str(to.id)):
        answer = await _promote(shared, build.id, target, "n" * 500, token=shared.acme.token("deployer"))
        await shared.settle()
        assert answer.status == 202
        assert answer.data == {
            "id": answer.data["id"],
            "repository_id": build.repository_id,
            "environment_id": to.public_id,
            "status": "queued",
            "trigger": "promotion",
            "revision": build.revision,
            "ref": None,
            "promoted_from_build_id": build.id,
            "created_at": answer.data["created_at"],
            "finished_at": None,
        }
        async with shared.sessions() as session:
            assert (await session.get_one(Deployment, answer.data["id"])).note == "n" * 500
            query = select(AuditEntry).where(AuditEntry.subject == f"deployment {answer.data['id']}")
            entry = (await session.execute(query)).scalar_one()
        assert entry.action == "deployment.queue"
        assert json.loads(entry.details) == {
            "environment": to.public_id,
            "trigger": "promotion",
            "ref": None,
            "note": "n" * 500,
        }


async def test_promotion_of_a_rollback_names_the_rollback(platform: Platform) -> None:
    old = platform.acme.deployments["staging"]
    async with platform.sessions() as session, session.begin():
        back = await add_deployment(session, platform.acme, "shop/staging", NOW, rolled_back_to_id=old.id)
    target = platform.acme.environment("shop/production").public_id
    answer = await _promote(platform, back.id, target)
    assert (answer.data["promoted_from_build_id"], answer.data["revision"]) == (back.id, old.revision)


@pytest.mark.both_databases
async def test_promotion_to_other_environments_is_refused(platform: Platform) -> None:
    acme, other = platform.acme, platform.other
    async with platform.sessions() as session, session.begin():
        preview = await create_environment(session, acme.projects["shop"], "PR 1", "pr-1", "preview", NOW)
        later = await create_environment(session, acme.projects["blog"], "Late", "late", "production", NOW)
    build = acme.deployments["staging"].id
    before = await platform.contents()

    async def refused(target: Any) -> str:
        answer = await _promote(platform, build, target)
        assert (answer.problem, answer.fields) == ((422, "not-promotable"), ["target_environment_id"]), target
        told: str = answer.json()["errors"][0]["message"]
        return told

    earlier = "is not later than staging, the environment of the deployment"
    for environment in (acme.environment("shop/staging"), acme.environment("shop/development"), preview):
        for target in (environment.public_id, str(environment.id)):
            assert await refused(target) == earlier
    none = "is not an environment of the deployment's project"
    for environment in (later, acme.environment("blog/production"), other.environment("shop/production")):
        for target in (environment.public_id, str(environment.id)):
            assert await refused(target) == none
    for target in ("production", "env_zzz", "0", "-1", str(2**31), "9" * 40, "prj_zzz", "å", "' OR 1=1 --"):
        assert await refused(target) == none
    assert await platform.contents() == before


BAD_PROMOTIONS: list[tuple[Any, list[str]]] = [
    ({}, ["target_environment_id"]),
    ({"target_environment_id": None}, ["target_environment_id"]),
    ({"target_environment_id": ""}, ["target_environment_id"]),
    ({"target_environment_id": 3}, ["target_environment_id"]),
    ({"target_environment_id": ["env_1"]}, ["target_environment_id"]),
    ({"target_environment_id": "x" * 41}, ["target_environment_id"]),
    ({"target_environment_id": "env_\0"}, ["target_environment_id"]),
    (rb'{"target_environment_id": "\ud800"}', [""]),
    ({"target_environment_id": "env_1", "promotion_note": "n" * 501}, ["promotion_note"]),
    ({"target_environment_id": "env_1", "promotion_note": "a\0b"}, ["promotion_note"]),
    ({"target_environment_id": "env_1", "promotion_note": 5}, ["promotion_note"]),
    ({"promotion_note": False}, ["target_environment_id", "promotion_note"]),
    (b"", [""]),
    (b"[]", [""]),
    (b"{", [""]),
]


@pytest.mark.parametrize(("body", "fields"), BAD_PROMOTIONS, ids=lambda value: str(value)[:60])
async def test_every_invalid_field_of_a_promotion_is_named(
    shared: Platform, body: Any, fields: list[str]
) -> None:
    path = f"/v1/deployments/{shared.acme.deployments['staging'].id}/promote"
    before = await shared.contents()
    answer = await shared.call("POST", path, body)
    assert (answer.problem, answer.fields) == ((422, "validation-failed"), fields)
    assert await shared.contents() == before


async def test_promotion_without_json_body_is_415(shared: Platform) -> None:
    path = f"/v1/deployments/{shared.acme.deployments['staging'].id}/promote"
    assert (await shared.call("POST", path)).problem == (415, "unsupported-media-type")


@pytest.mark.both_databases
async def test_promotion_target_must_accept_deploys(platform: Platform) -> None:
    acme = platform.acme
    production = acme.environment("shop/production")
    build, own = acme.deployments["staging"].id, acme.deployments["production"].id

    async def both() -> set[tuple[int, str]]:
        return {
            (await _promote(platform, build, production.public_id)).problem,
            (await _roll_back(platform, own)).problem,
        }

    await platform.change("shop/production", state="hibernated")
    assert await both() == {(422, "environment-not-ready")}
    await platform.change("shop/production", state="running")
    async with platform.sessions() as session, session.begin():
        session.add(EnvironmentLock(environment_id=production.id, reason="x", locked_at=NOW))
    assert await both() == {(422, "environment-locked")}
    async with platform.sessions() as session, session.begin():
        await session.delete(await session.get_one(EnvironmentLock, production.id))
        active = await add_deployment(session, acme, "shop/production", NOW, status="running")
    assert await both() == {(409, "deploy-running")}
    answer = await _promote(platform, build, production.public_id)
    assert answer.json()["active_deployment_id"] == active.id


async def test_promotion_waits_for_approval_of_the_target(platform: Platform) -> None:
    await platform.change("shop/production", deploys_need_approval=True)
    target = platform.acme.environment("shop/production").public_id
    answer = await _promote(platform, platform.acme.deployments["staging"].id, target)
    assert (answer.status, answer.data["status"]) == (202, "awaiting_approval")

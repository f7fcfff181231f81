"""Many concurrent deploys to one environment."""

import asyncio
from collections import Counter

import pytest
from sqlalchemy import func, select

from control_domain.tables.audit import AuditEntry
from control_domain.tables.deployments import Deployment, DeploymentLine
from control_domain.tables.idempotency import IdempotentResponse
from control_domain.tables.recorded_deployments import RecordedDeployment
from tests.support.deploy_platform import Platform, Response, environment_path

PEOPLE = ("owner", "admin", "maintainer", "deployer")


async def _rows(platform: Platform) -> dict[str, int]:
    async with platform.sessions() as session:
        return {
            table.__tablename__: (await session.execute(select(func.count()).select_from(table))).scalar_one()
            for table in (Deployment, DeploymentLine, AuditEntry, IdempotentResponse)
        }


async def _deploy(
    platform: Platform, name: str, number: int = 0, key: str | None = None, ref: str = "main"
) -> Response:
    return await platform.call(
        "POST",
        environment_path(platform.acme.places[name], "deploy"),
        {"ref": ref},
        token=platform.acme.token(PEOPLE[number % len(PEOPLE)]),
        headers={"Idempotency-Key": key},
    )


@pytest.mark.both_databases
async def test_one_of_two_hundred_concurrent_deploys_is_accepted(platform: Platform) -> None:
    before = await _rows(platform)
    # Half of the requests have idempotency keys, each a different one.
    answers = await asyncio.gather(
        *(_deploy(platform, "shop/production", n, f"key {n}" if n % 2 else None) for n in range(200))
    )
    assert Counter(answer.status for answer in answers) == {202: 1, 409: 199}
    [taken] = [answer.data["id"] for answer in answers if answer.status == 202]
    assert {answer.json()["active_deployment_id"] for answer in answers if answer.status == 409} == {taken}
    after = await _rows(platform)
    kept = after.pop("idempotent_answers") - before.pop("idempotent_answers")
    assert kept <= 1
    assert after == {name: count + 1 for name, count in before.items()}


@pytest.mark.both_databases
async def test_deploys_of_different_environments_are_independent(platform: Platform) -> None:
    names = [f"shop/{slug}" for slug in platform.acme.deployments]
    answers = await asyncio.gather(*(_deploy(platform, names[n % 3], n) for n in range(60)))
    assert Counter(answer.status for answer in answers) == {202: 3, 409: 57}
    for slug, environment in ((name, platform.acme.environment(name)) for name in names):
        taken = {
            a.data["id"]
            for a in answers
            if a.status == 202 and a.data["environment_id"] == environment.public_id
        }
        assert len(taken) == 1, slug


async def test_concurrent_deploys_that_need_approval_are_all_accepted(platform: Platform) -> None:
    await platform.change("shop/production", deploys_need_approval=True)
    answers = await asyncio.gather(*(_deploy(platform, "shop/production", n) for n in range(40)))
    assert Counter((answer.status, answer.data["status"]) for answer in answers) == {
        (202, "awaiting_approval"): 40
    }


@pytest.mark.both_databases
async def test_hundred_requests_with_one_key_get_the_same_response(platform: Platform) -> None:
    before = await _rows(platform)
    answers = await asyncio.gather(*(_deploy(platform, "shop/production", 0, "the same") for _ in range(100)))
    assert {(answer.status, answer.body) for answer in answers} == {(202, answers[0].body)}
    assert Counter(answer.headers.get("Idempotent-Replayed") for answer in answers) == {None: 1, "true": 99}
    assert await _rows(platform) == {name: count + 1 for name, count in before.items()}


async def test_one_of_hundred_requests_with_one_key_and_different_bodies_is_accepted(
    platform: Platform,
) -> None:
    answers = await asyncio.gather(
        *(_deploy(platform, "shop/production", 0, "the same", ref=f"v{n}") for n in range(100))
    )
    assert Counter(answer.status for answer in answers) == {202: 1, 422: 99}


async def test_hundred_reports_with_one_key_are_recorded_once(platform: Platform) -> None:
    report = {"deployment_id": "0190f3c2-7b5e-7a10-8c3d-2f4b6a8c0e1f", "version": "1.4.2"}
    headers = {"Idempotency-Key": "the same"}
    answers = await asyncio.gather(
        *(
            platform.call("POST", "/v1/deployments", report, token=platform.acme.ingest_key, headers=headers)
            for _ in range(100)
        )
    )
    assert {(answer.status, answer.body) for answer in answers} == {(201, answers[0].body)}
    assert Counter(answer.headers.get("Idempotent-Replayed") for answer in answers) == {None: 1, "true": 99}
    async with platform.sessions() as session:
        assert len((await session.execute(select(RecordedDeployment.id))).all()) == 1

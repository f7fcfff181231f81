"""Plans and reviews over HTTP, and the retention of a review's data."""

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select

from control_domain.audit import Actor
from control_domain.configurations.reviews import (
    clean_up_reviews,
    create_review,
    describe_review,
    plan_project,
)
from control_domain.projects.operations import create_project
from control_domain.removals.remove_project import remove_project
from control_domain.sealing import SealingKeys
from control_domain.tables.accounts import Account
from control_domain.tables.audit import AuditEntry
from control_domain.tables.configuration import Review
from control_domain.tables.idempotency import IdempotentResponse
from pipeline_contracts.errors import NotFound
from tests.support.reviewed_project import ReviewedProject

SECRET = "hunter2 hunter2 hunter2"
DOCUMENT = """\
environments:
  staging:
    replicas: 3
    variables: {APP_ENV: staging, TOKEN: "${token}"}
    queues: {default: {}}
"""
BINDINGS = {"token": SECRET}


async def _forget(reviewed: ReviewedProject, now: datetime) -> None:
    async with reviewed.platform.sessions() as session, session.begin():
        await clean_up_reviews(session, now)


async def _find(reviewed: ReviewedProject, number: int) -> Review | None:
    found = await reviewed.rows(Review, Review.id == number)
    return found[0] if found else None


async def test_a_plan_says_what_would_change_and_changes_nothing(reviewed: ReviewedProject) -> None:
    before = await reviewed.platform.contents()
    answer = await reviewed.ask("plan", DOCUMENT, BINDINGS)
    assert answer.status == 200
    plan = answer.data
    assert set(plan) == {"fingerprint", "summary", "actions", "unmanaged", "awaiting_approval"}
    assert plan["fingerprint"].startswith("sha256:")
    assert plan["summary"] == {"create": 1, "update": 1, "delete": 0}
    update, create = plan["actions"]
    assert (update["action"], update["resource"]) == ("update", "environments.staging")
    assert (create["action"], create["resource"]) == ("create", "environments.staging.queues.default")
    replicas, app_env, token = update["changes"]
    assert replicas == {"field": "replicas", "from": 1, "to": 3}
    for change in (app_env, token):
        assert (change["from"], change["to"], change["sensitive"]) == (None, "•••", True)
    assert await reviewed.platform.contents() == before


async def test_the_same_document_gives_the_same_bytes(reviewed: ReviewedProject) -> None:
    answers = [await reviewed.ask("plan", DOCUMENT, BINDINGS) for _ in range(3)]
    assert len({answer.body for answer in answers}) == 1


async def test_a_review_has_the_plan_and_is_open_for_fifteen_minutes(reviewed: ReviewedProject) -> None:
    plan = (await reviewed.ask("plan", DOCUMENT, BINDINGS)).data
    before = await reviewed.platform.contents()
    asked = datetime.now(UTC)
    answer = await reviewed.ask("reviews", DOCUMENT, BINDINGS, who="admin")
    assert answer.status == 201
    result = answer.data
    assert set(result) == {"id", "plan", "created_at", "expires_at", "status"}
    assert (result["plan"], result["status"]) == (plan, "open")
    created, expires = (datetime.fromisoformat(result[name]) for name in ("created_at", "expires_at"))
    assert expires - created == timedelta(minutes=15)
    assert abs(created - asked) < timedelta(minutes=1)
    # There is one more row and one audit entry, and the project is unchanged.
    after = await reviewed.platform.contents()
    assert {name for name in before if before[name] != after[name]} == {"config_reviews", "audit_entries"}
    assert len(after["config_reviews"]) == len(before["config_reviews"]) + 1
    entry = (await reviewed.rows(AuditEntry))[-1]
    assert (entry.action, entry.subject) == ("configuration.review", f"project {reviewed.project.public_id}")
    assert json.loads(entry.details) == {"review": result["id"], "create": 1, "update": 1, "delete": 0}
    assert entry.person_id == reviewed.platform.acme.people["admin"].id


@pytest.mark.parametrize("path", ["plan", "reviews"])
async def test_a_bad_document_or_binding_is_422_that_names_it(reviewed: ReviewedProject, path: str) -> None:
    before = await reviewed.platform.contents()
    answer = await reviewed.ask(path, "environments: {staging: {replicas: 21}}\n")
    assert (answer.problem, answer.fields) == (
        (422, "validation-failed"),
        ["document.environments.staging.replicas"],
    ), answer.json()
    answer = await reviewed.ask(path, DOCUMENT, {"other": SECRET})
    assert answer.problem == (422, "validation-failed")
    assert sorted(answer.fields) == ["bindings.other", "bindings.token"]
    assert SECRET.encode() not in answer.body
    # A fault that only the project shows: no review is stored.
    answer = await reviewed.ask(path, "environments: {staging: {variables: {A: {keep: true}}}}\n")
    assert answer.problem == (422, "validation-failed")
    answer = await reviewed.call("POST", path, {"document": "version: 2"})
    assert (answer.problem, answer.fields) == ((422, "validation-failed"), ["bindings"])
    assert await reviewed.platform.contents() == before


async def test_no_secret_is_in_answers_or_rows(reviewed: ReviewedProject) -> None:
    answers = [await reviewed.ask(path, DOCUMENT, BINDINGS, key=path) for path in ("plan", "reviews")]
    number = answers[1].data["id"]
    row = await _find(reviewed, number)
    assert row is not None
    assert row.sealed is not None
    assert (row.key_id, SECRET.encode() in row.sealed) == (reviewed.keys.key_id, False)
    answers.append(await reviewed.apply(number))
    answers.append(await reviewed.call("GET", f"applications/{answers[-1].data['id']}"))
    for answer in answers:
        assert answer.status in (200, 201)
        assert SECRET.encode() not in answer.body
    assert SECRET not in repr(await reviewed.platform.contents())


async def test_variables_that_cannot_be_opened_are_503(reviewed: ReviewedProject) -> None:
    await reviewed.apply_document(DOCUMENT, BINDINGS)
    number = await reviewed.review("")
    before = await reviewed.platform.contents()
    reviewed.platform.app.state.variable_keys = SealingKeys([b"?" * 32])
    base = f"{reviewed.platform.url}/api/v1/projects/{reviewed.project.public_id}/configuration"
    headers = {"Authorization": f"Bearer {reviewed.platform.acme.token()}"}
    body: Any = {"document": "version: 2", "bindings": {}}
    for path, sent in (("plan", body), ("reviews", body), (f"reviews/{number}/apply", None)):
        async with reviewed.platform.http.post(f"{base}/{path}", json=sent, headers=headers) as answer:
            assert answer.status == 503, (path, await answer.text())
            assert answer.headers["Retry-After"] == "60"
            assert "PHAROS_VARIABLES_KEY" not in await answer.text()
    assert await reviewed.platform.contents() == before


async def test_a_repeated_request_creates_one_review(reviewed: ReviewedProject) -> None:
    count = await reviewed.count(Review)
    first = await reviewed.ask("reviews", DOCUMENT, BINDINGS, key="k")
    again = await reviewed.ask("reviews", DOCUMENT, BINDINGS, key="k")
    assert (first.status, again.status, again.body) == (201, 201, first.body)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert await reviewed.count(Review) == count + 1
    # The first response is repeated even after the review was applied.
    assert (await reviewed.apply(first.data["id"])).status == 200
    assert (await reviewed.ask("reviews", DOCUMENT, BINDINGS, key="k")).body == first.body
    for document, bindings in ((f"{DOCUMENT} ", BINDINGS), (DOCUMENT, {"token": "another"})):
        answer = await reviewed.ask("reviews", document, bindings, key="k")
        assert (answer.problem, answer.fields) == ((422, "validation-failed"), ["Idempotency-Key"])
    assert await reviewed.count(Review) == count + 1


async def test_the_stored_idempotency_digest_does_not_reveal_the_body(reviewed: ReviewedProject) -> None:
    """With an unkeyed digest of the body, a person with the database could guess the values of secrets."""
    body = json.dumps({"document": f"version: 2\n{DOCUMENT}", "bindings": BINDINGS}).encode()
    path = f"/api/v1/projects/{reviewed.project.public_id}/configuration/reviews"
    headers = {"Content-Type": "application/json", "Idempotency-Key": "k"}
    answer = await reviewed.platform.call("POST", path.removeprefix("/api"), body, headers=headers)
    assert answer.status == 201
    async with reviewed.platform.sessions() as session:
        kept = (await session.execute(select(IdempotentResponse))).scalar_one()
    assert kept.request_digest != hashlib.sha256(f"POST {path}\0".encode() + body).digest()


async def test_a_review_of_a_removed_project_is_not_found(reviewed: ReviewedProject) -> None:
    now, actor = datetime.now(UTC), Actor("test")
    acme = reviewed.platform.acme.account
    async with reviewed.platform.sessions() as session, session.begin():
        project = await create_project(session, acme, "Empty", "empty", now)
    async with reviewed.platform.sessions() as session:
        plan = await plan_project(session, reviewed.keys, project, "version: 2", {})
    async with reviewed.platform.sessions() as session, session.begin():
        await remove_project(session, await session.get_one(Account, acme.id), project, actor, now)
    async with reviewed.platform.sessions() as session:
        with pytest.raises(NotFound):
            await plan_project(session, reviewed.keys, project, "version: 2", {})
        with pytest.raises(NotFound):
            await create_review(session, reviewed.keys, project, plan, actor, now)


async def test_applying_a_review_deletes_its_secrets(reviewed: ReviewedProject) -> None:
    number = await reviewed.review(DOCUMENT, BINDINGS)
    other = await reviewed.review("environments: {staging: {replicas: 2}}\n")
    assert (await reviewed.apply(number)).status == 200
    row, open_one = await _find(reviewed, number), await _find(reviewed, other)
    assert row is not None
    assert open_one is not None
    assert (row.sealed, row.key_id) == (None, None)
    assert describe_review(row, datetime.now(UTC))["status"] == "applied"
    assert open_one.sealed is not None


async def test_an_expired_review_loses_its_secrets(reviewed: ReviewedProject) -> None:
    numbers = [await reviewed.review(DOCUMENT, BINDINGS) for _ in range(2)]
    first, second = [await _find(reviewed, number) for number in numbers]
    assert first is not None
    assert second is not None
    await _forget(reviewed, first.expires_at - timedelta(microseconds=1))
    for number in numbers:
        row = await _find(reviewed, number)
        assert row is not None
        assert row.sealed is not None
    await _forget(reviewed, first.expires_at)
    row, later = [await _find(reviewed, number) for number in numbers]
    assert row is not None
    assert later is not None
    assert (row.sealed, row.key_id, later.sealed is None) == (None, None, False)
    assert describe_review(row, first.expires_at)["status"] == "expired"
    assert describe_review(row, first.expires_at - timedelta(microseconds=1))["status"] == "open"
    # The review can still be read.
    assert row.plan == first.plan
    answer = await reviewed.apply(numbers[1])
    assert answer.status == 200


async def test_unapplied_reviews_are_deleted_after_thirty_days(reviewed: ReviewedProject) -> None:
    applied, never = [await reviewed.review(DOCUMENT, BINDINGS) for _ in range(2)]
    assert (await reviewed.apply(applied)).status == 200
    for number in (applied, never):
        await reviewed.age(number, timedelta(days=30))
    await _forget(reviewed, datetime.now(UTC))
    assert await _find(reviewed, never) is not None
    for number in (applied, never):
        await reviewed.age(number, timedelta(minutes=15))
    await _forget(reviewed, datetime.now(UTC))
    assert await _find(reviewed, never) is None
    assert await _find(reviewed, applied) is not None
    assert (await reviewed.apply(never)).problem == (404, "not-found")


@pytest.mark.both_databases
async def test_ids_of_deleted_reviews_are_not_reused(reviewed: ReviewedProject) -> None:
    """Otherwise a caller with an old ID could apply another person's review."""
    number = await reviewed.review(DOCUMENT, BINDINGS)
    await reviewed.age(number, timedelta(days=31))
    await _forget(reviewed, datetime.now(UTC))
    assert await _find(reviewed, number) is None
    assert await reviewed.review(DOCUMENT, BINDINGS) > number

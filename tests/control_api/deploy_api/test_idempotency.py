"""`Idempotency-Key` on every `POST` of the control plane."""

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import delete, func, select

from control_domain.projects.operations import create_ingest_key
from control_domain.tables.deployments import Deployment
from control_domain.tables.idempotency import IdempotentResponse
from control_domain.tables.projects import ProjectRole
from control_domain.tables.recorded_deployments import RecordedDeployment
from control_workers.forget_idempotency_keys import forget_old
from tests.support.deploy_platform import ALL_SCOPES, Platform, Response, add_token, environment_path

_REPLAYED = "Idempotent-Replayed"


async def _deploy(
    platform: Platform, key: str, body: Any = None, name: str = "shop/development", **options: Any
) -> Response:
    path = environment_path(platform.acme.places[name], "deploy")
    return await platform.call("POST", path, body, headers={"Idempotency-Key": key}, **options)


async def _count(platform: Platform, table: type[Any]) -> int:
    async with platform.sessions() as session:
        return (await session.execute(select(func.count()).select_from(table))).scalar_one()


async def _age(platform: Platform, by: timedelta) -> None:
    """Move the stored responses back in time."""
    async with platform.sessions() as session, session.begin():
        for row in (await session.execute(select(IdempotentResponse))).scalars():
            row.created_at -= by


def _posts(platform: Platform) -> dict[str, tuple[str, Any, str]]:
    """Return every operation that creates something: its path, body and credential."""
    acme = platform.acme
    production = acme.environment("shop/production").public_id
    report = {"deployment_id": str(uuid.uuid4()), "version": "1.4.2"}
    return {
        "deploy": (environment_path(acme.places["shop/development"], "deploy"), {"ref": "v1"}, acme.token()),
        "roll back": (f"/v1/deployments/{acme.deployments['staging'].id}/rollback", None, acme.token()),
        "promote": (
            f"/v1/deployments/{acme.deployments['staging'].id}/promote",
            {"target_environment_id": production},
            acme.token(),
        ),
        "record": ("/v1/deployments", report, acme.ingest_key),
    }


async def test_repeated_request_gets_the_stored_response(platform: Platform) -> None:
    for name, (path, body, token) in _posts(platform).items():
        headers = {"Idempotency-Key": f"a key {name}"}
        before = await platform.contents()
        first = await platform.call("POST", path, body, token=token, headers=headers)
        assert first.status in (201, 202), name
        assert _REPLAYED not in first.headers
        made = await platform.contents()
        assert made != before
        for _ in range(2):
            again = await platform.call("POST", path, body, token=token, headers=headers)
            assert (again.status, again.body, again.headers["Content-Type"]) == (
                first.status,
                first.body,
                "application/json",
            ), name
            assert again.headers[_REPLAYED] == "true"
            assert again.headers["X-Request-Id"] != first.headers["X-Request-Id"]
        assert await platform.contents() == made
    assert await _count(platform, Deployment) == 6 + 3
    assert await _count(platform, RecordedDeployment) == 1


async def test_nothing_is_stored_without_a_key(platform: Platform) -> None:
    for path, body, token in _posts(platform).values():
        await platform.call("POST", path, body, token=token)
    assert await _count(platform, IdempotentResponse) == 0


async def test_stored_response_is_independent_of_later_changes(platform: Platform) -> None:
    first = await _deploy(platform, "k")
    await platform.settle()
    again = await _deploy(platform, "k")
    assert (again.status, again.data["status"], again.body) == (202, "queued", first.body)
    assert (await _deploy(platform, "another")).data["id"] != first.data["id"]


async def test_key_is_valid_for_one_request_only(platform: Platform) -> None:
    """Another body, path or method with the same key is refused and changes nothing."""
    first = await _deploy(platform, "k", {"ref": "main"})
    await platform.settle()
    before = await platform.contents()
    build = platform.acme.deployments["staging"].id
    others = [
        await _deploy(platform, "k", {"ref": "v2"}),
        await _deploy(platform, "k"),
        await _deploy(platform, "k", b'{"ref":"main"}'),
        await _deploy(platform, "k", {"ref": "main"}, "shop/staging"),
        await platform.call("POST", f"/v1/deployments/{build}/rollback", headers={"Idempotency-Key": "k"}),
    ]
    for answer in others:
        assert (answer.problem, answer.fields) == ((422, "validation-failed"), ["Idempotency-Key"])
    assert await platform.contents() == before
    assert (await _deploy(platform, "k", {"ref": "main"})).body == first.body


async def test_keys_of_different_persons_are_independent(platform: Platform) -> None:
    acme, other = platform.acme, platform.other
    first = await _deploy(platform, "k")
    deployer = acme.token("deployer")
    theirs = await _deploy(platform, "k", None, "shop/staging", token=deployer)
    assert (theirs.status, theirs.headers.get(_REPLAYED)) == (202, None)
    elsewhere = await platform.call(
        "POST",
        environment_path(other.places["shop/development"], "deploy"),
        token=other.token(),
        headers={"Idempotency-Key": "k"},
    )
    assert (elsewhere.status, elsewhere.headers.get(_REPLAYED)) == (202, None)
    assert len({first.data["id"], theirs.data["id"], elsewhere.data["id"]}) == 3
    # A person who has lost a token continues with a new one.
    async with platform.sessions() as session, session.begin():
        fresh = await add_token(session, acme, acme.people["owner"], ALL_SCOPES)
    again = await _deploy(platform, "k", token=fresh)
    assert (again.body, again.headers[_REPLAYED]) == (first.body, "true")


@pytest.mark.both_databases
async def test_stored_response_is_not_sent_without_permission(platform: Platform) -> None:
    deployer = platform.acme.people["deployer"].id
    assert (await _deploy(platform, "k", token=platform.acme.token("deployer"))).status == 202
    async with platform.sessions() as session, session.begin():
        await session.execute(delete(ProjectRole).where(ProjectRole.person_id == deployer))
    answer = await _deploy(platform, "k", token=platform.acme.token("deployer"))
    assert answer.problem == (403, "deploy-not-allowed")


@pytest.mark.both_databases
async def test_key_expires_after_a_day(platform: Platform) -> None:
    first = await _deploy(platform, "k")
    await platform.settle()
    await _age(platform, timedelta(hours=23, minutes=59))
    assert (await _deploy(platform, "k")).body == first.body
    await _age(platform, timedelta(minutes=2))
    second = await _deploy(platform, "k", {"ref": "v2"})
    assert (second.status, second.headers.get(_REPLAYED)) == (202, None)
    assert second.data["id"] != first.data["id"]
    assert await _count(platform, IdempotentResponse) == 1


async def test_error_responses_are_not_stored(platform: Platform) -> None:
    """The same request may be sent again, and is checked again."""
    await platform.change("shop/development", state="hibernated")
    assert (await _deploy(platform, "k")).status == 422
    await platform.change("shop/development", state="running")
    assert (await _deploy(platform, "k", {"ref": "a b"})).status == 422
    await _deploy(platform, "another")
    assert (await _deploy(platform, "k")).status == 409
    await platform.settle()
    answer = await _deploy(platform, "k")
    assert (answer.status, answer.headers.get(_REPLAYED)) == (202, None)
    assert await _count(platform, IdempotentResponse) == 2


async def test_200_for_an_earlier_report_is_stored(platform: Platform) -> None:
    path, body, token = _posts(platform)["record"]
    plain = await platform.call("POST", path, body, token=token)
    keyed = await platform.call("POST", path, body, token=token, headers={"Idempotency-Key": "k"})
    again = await platform.call("POST", path, body, token=token, headers={"Idempotency-Key": "k"})
    assert (plain.status, keyed.status, again.status) == (201, 200, 200)
    assert plain.body == keyed.body == again.body
    assert again.headers[_REPLAYED] == "true"


async def test_ingest_keys_of_one_environment_share_idempotency_keys(platform: Platform) -> None:
    path, body, token = _posts(platform)["record"]
    now = datetime.now(UTC)
    async with platform.sessions() as session, session.begin():
        same = await create_ingest_key(session, platform.acme.environment("shop/production"), now)
        other = await create_ingest_key(session, platform.acme.environment("shop/staging"), now)
    answers = [
        await platform.call("POST", path, body, token=key, headers={"Idempotency-Key": "k"})
        for key in (token, same, other)
    ]
    assert [(a.status, a.headers.get(_REPLAYED)) for a in answers] == [
        (201, None),
        (201, "true"),
        (201, None),
    ]
    assert answers[2].data["environment_id"] == platform.acme.environment("shop/staging").public_id
    refused = await platform.call(
        "POST", path, {**body, "note": "x"}, token=same, headers={"Idempotency-Key": "k"}
    )
    assert (refused.problem, refused.fields) == ((422, "validation-failed"), ["Idempotency-Key"])
    assert await _count(platform, RecordedDeployment) == 2


@pytest.mark.parametrize("key", ["", "x" * 256, "é", "a\tb", "🔑"], ids=ascii)
async def test_malformed_key_is_422(shared: Platform, key: str) -> None:
    before = await shared.contents()
    for path, body, token in _posts(shared).values():
        answer = await shared.call("POST", path, body, token=token, headers={"Idempotency-Key": key})
        assert (answer.problem, answer.fields) == ((422, "validation-failed"), ["Idempotency-Key"])
    assert await shared.contents() == before


async def test_two_keys_are_422(shared: Platform) -> None:
    """It would be ambiguous which key applies."""
    before = await shared.contents()
    for path, body, token in _posts(shared).values():
        headers = [("Authorization", f"Bearer {token}"), ("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
        data = None if body is None else json.dumps(body)
        if data is not None:
            headers.append(("Content-Type", "application/json"))
        async with shared.http.post(f"{shared.url}/api{path}", data=data, headers=headers) as answer:
            assert answer.status == 422
            told = await answer.json(content_type=None)
        assert [error["field"] for error in told["errors"]] == ["Idempotency-Key"]
    assert await shared.contents() == before


async def test_printable_keys_are_accepted(platform: Platform) -> None:
    for key in (
        "a",
        "x" * 255,
        "a key, with: blanks; and 'signs'",
        '"quoted"',
        str(uuid.uuid4()),
        "%00",
        "\\u0000",
    ):
        first = await _deploy(platform, key)
        assert first.status == 202, key
        assert (await _deploy(platform, key)).body == first.body
        await platform.settle()


@pytest.mark.both_databases
async def test_expired_keys_are_deleted(platform: Platform) -> None:
    assert (await _deploy(platform, "old")).status == 202
    await _age(platform, timedelta(hours=24, seconds=1))
    assert (
        await _deploy(platform, "new", name="shop/staging", token=platform.acme.token("deployer"))
    ).status == 202
    assert await _count(platform, IdempotentResponse) == 2
    await forget_old(platform.sessions, datetime.now(UTC))
    async with platform.sessions() as session:
        assert (await session.execute(select(IdempotentResponse.key))).scalars().all() == ["new"]

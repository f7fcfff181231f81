"""`POST /v1/environments/{environment}/deploy`, one request at a time."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from control_domain.environments.windows import DAYS, DeployWindow, dump_window
from control_domain.tables.deployments import Deployment, DeploymentLine
from control_domain.tables.projects import EnvironmentLock
from control_domain.tables.repositories import Repository
from pipeline_contracts.deploy_states import ACTIVE_STATUSES, DeploymentStatus
from tests.support.deploy_platform import Platform, Response, add_deployment, environment_path

NOW = datetime.now(UTC)


async def _deploy(
    platform: Platform, body: Any = None, name: str = "shop/development", **options: Any
) -> Response:
    return await platform.call(
        "POST", environment_path(platform.acme.places[name], "deploy"), body, **options
    )


async def test_deploy_is_queued(platform: Platform) -> None:
    """The deployment and its log can be read immediately."""
    deployer = platform.acme.token("deployer")
    # Responses have times in whole milliseconds.
    before = datetime.now(UTC).replace(microsecond=0)
    answer = await _deploy(platform, {"ref": "feature/cart", "tomorrow": [1]}, token=deployer)
    assert answer.status == 202
    told = answer.data
    assert before <= datetime.fromisoformat(told["created_at"]) <= datetime.now(UTC)
    assert told == {
        "id": told["id"],
        "repository_id": platform.acme.deployments["development"].repository_id,
        "environment_id": platform.acme.environment("shop/development").public_id,
        "status": "queued",
        "trigger": "api",
        "revision": None,
        "ref": "feature/cart",
        "promoted_from_build_id": None,
        "created_at": told["created_at"],
        "finished_at": None,
    }
    assert (await platform.call("GET", f"/v1/deployments/{told['id']}")).data == told
    assert (await platform.call("GET", "/v1/deployments?limit=1")).data == [told]
    log = (await platform.call("GET", f"/v1/deployments/{told['id']}/log")).data
    assert (log["status"], [line["text"] for line in log["lines"]]) == ("queued", ["Queued: feature/cart."])
    async with platform.sessions() as session:
        row = await session.get_one(Deployment, told["id"])
        assert row.asked_by_id == platform.acme.people["deployer"].id
        assert not row.needs_approval


NO_REF: list[tuple[Any, dict[str, str]]] = [
    (None, {}),
    (b"", {"Content-Type": "text/plain"}),
    (b"", {"Content-Encoding": "gzip"}),
    ({}, {}),
    ({"ref": None}, {}),
    (b' {"other": "x"} ', {"Content-Type": "Application/JSON; charset=utf-8"}),
]


@pytest.mark.parametrize(("body", "headers"), NO_REF)
async def test_deploy_without_ref_uses_the_branch(
    shared: Platform, body: Any, headers: dict[str, str]
) -> None:
    answer = await _deploy(shared, body, headers=headers)
    await shared.settle()
    assert (answer.status, answer.data["ref"]) == (202, None)
    log = (await shared.call("GET", f"/v1/deployments/{answer.data['id']}/log")).data
    assert log["lines"][0]["text"] == "Queued: main."


async def test_environment_branch_overrides_repository_branch(platform: Platform) -> None:
    await platform.change("shop/development", branch="develop")
    answer = await _deploy(platform)
    log = (await platform.call("GET", f"/v1/deployments/{answer.data['id']}/log")).data
    assert (answer.data["ref"], log["lines"][0]["text"]) == (None, "Queued: develop.")


async def test_body_may_arrive_in_chunks(shared: Platform) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b'{"re', b'f": "v', b'1"}'):
            yield piece

    answer = await _deploy(shared, pieces())
    await shared.settle()
    assert (answer.status, answer.data["ref"]) == (202, "v1")


GOOD_REFS = [
    "main", "a", "v1.2.3", "feature/cart", "feature/a/b.c", "release-1", "a@b", "@a", "a@", "user/-x", "a{b}",
    "HEAD", "refs/heads/main", "refs/tags/v1", "9fceb02d0ae598e95dc970b74767f19372d61af8", "9fceb02", "ø",
    "日本語", "🚢", "a" * 200, "ø" * 200, "a#b", "a'b", 'a"b', "$(id)", "a;b", "a&b|c", "<a>", "a%b", "locks",
    "a.lock.b", "a,b=c!", "été/été",
]  # fmt: skip
BAD_REFS = [
    "", " ", "a b", " a", "a ", "-a", "-", "--upload-pack=id", "/a", "a/", "/", "a//b", "a..b", "..", ".", ".a",
    "a.", "a/.b", "a.lock", "a.lock/b", ".lock", "a~1", "a^", "^a", "a:b", ":a", "a?", "a*", "[a", "a\\b",
    "a@{1}", "@{u}", "@", "a\tb", "a\nb", "a\n", "\ra", "a\0b", "\0", "a\x7f", "a\x1b[0m", "a" * 201,
    "a" * 60_000,
]  # fmt: skip


async def test_refs_that_git_allows_are_accepted(shared: Platform) -> None:
    for ref in GOOD_REFS:
        answer = await _deploy(shared, {"ref": ref})
        await shared.settle()
        assert (answer.status, answer.data["ref"]) == (202, ref)


async def test_invalid_ref_is_422(shared: Platform) -> None:
    before = await shared.contents()
    for ref in [*BAD_REFS, 5, True, 1.5, [], {}, ["main"], {"ref": "main"}]:
        answer = await _deploy(shared, {"ref": ref})
        assert answer.problem == (422, "validation-failed"), ref
        assert answer.fields == ["ref"]
    # Half a surrogate pair, which cannot be stored in a text.
    for written in (rb'{"ref": "\ud800"}', rb'{"ref": "\udc00a"}', b'{"ref": "\xff"}'):
        assert (await _deploy(shared, written)).status == 422, written
    assert await shared.contents() == before


BAD_BODIES: list[tuple[Any, dict[str, str], tuple[int, str]]] = [
    (b"[]", {}, (422, "validation-failed")),
    (b'"main"', {}, (422, "validation-failed")),
    (b"null", {}, (422, "validation-failed")),
    (b"{", {}, (422, "validation-failed")),
    (b'{"ref": "a"} x', {}, (422, "validation-failed")),
    (b"[" * 50_000, {}, (422, "validation-failed")),
    (b'{"ref": ' + b"[" * 50_000, {}, (422, "validation-failed")),
    (b'{"x": ' + b"[" * 30_000 + b"]" * 30_000 + b"}", {}, (422, "validation-failed")),
    (b'{"ref": "a"}', {"Content-Type": "text/plain"}, (415, "unsupported-media-type")),
    (b'{"ref": "a"}', {"Content-Type": "application/jsonx"}, (415, "unsupported-media-type")),
    (b'{"ref": "a"}', {"Content-Type": ""}, (415, "unsupported-media-type")),
    (b'{"ref": "a"}', {"Content-Encoding": "gzip"}, (415, "unsupported-media-type")),
    (b'{"ref": "a"}' + b" " * 70_000, {}, (413, "payload-too-large")),
]


@pytest.mark.parametrize(("body", "headers", "problem"), BAD_BODIES, ids=lambda value: str(value)[:40])
async def test_invalid_bodies_are_refused(
    shared: Platform, body: bytes, headers: dict[str, str], problem: tuple[int, str]
) -> None:
    before = await shared.contents()
    answer = await _deploy(shared, body, headers=headers)
    assert answer.problem == problem
    assert await shared.contents() == before


@pytest.mark.parametrize("status", ACTIVE_STATUSES)
async def test_second_deploy_is_409_with_the_active_deployment(
    shared: Platform, status: DeploymentStatus
) -> None:
    async with shared.sessions() as session, session.begin():
        active = await add_deployment(session, shared.acme, "shop/staging", NOW, status=status.value)
    before = await shared.contents()
    answer = await _deploy(shared, name="shop/staging")
    assert answer.problem == (409, "deploy-running")
    assert answer.json()["active_deployment_id"] == active.id
    assert await shared.contents() == before
    # Another environment of the project is free.
    assert (await _deploy(shared, name="shop/production")).status == 202
    await shared.settle()
    assert (await _deploy(shared, name="shop/staging")).status == 202
    await shared.settle()


async def test_deployment_waiting_for_approval_is_not_active(platform: Platform) -> None:
    await platform.change("shop/production", deploys_need_approval=True)
    for _ in range(2):
        answer = await _deploy(platform, name="shop/production")
        assert (answer.status, answer.data["status"], answer.data["finished_at"]) == (
            202,
            "awaiting_approval",
            None,
        )
    log = (await platform.call("GET", f"/v1/deployments/{answer.data['id']}/log")).data
    assert [line["text"] for line in log["lines"]] == [
        "Queued: main.",
        "Waits for the approval of a second person.",
    ]
    await platform.change("shop/production", deploys_need_approval=False)
    assert (await _deploy(platform, name="shop/production")).data["status"] == "queued"
    assert (await _deploy(platform, name="shop/production")).status == 409


async def test_locked_environment_is_422_with_the_reason(platform: Platform) -> None:
    environment = platform.acme.environment("shop/development")
    person = platform.acme.people["maintainer"]
    async with platform.sessions() as session, session.begin():
        session.add(
            EnvironmentLock(
                environment_id=environment.id, reason="inventory", person_id=person.id, locked_at=NOW
            )
        )
    before = await platform.contents()
    answer = await _deploy(platform)
    assert answer.problem == (422, "environment-locked")
    told = f"is locked by {person.name}: inventory"
    assert answer.json()["errors"] == [{"field": "locked", "message": told}]
    assert await platform.contents() == before
    async with platform.sessions() as session, session.begin():
        await session.execute(update(EnvironmentLock).values(person_id=None))
    assert (await _deploy(platform)).json()["errors"][0]["message"] == "is locked by an operator: inventory"
    async with platform.sessions() as session, session.begin():
        await session.execute(delete(EnvironmentLock))
    assert (await _deploy(platform)).status == 202


async def test_deploy_outside_the_window_is_422(platform: Platform) -> None:
    now = datetime.now(UTC)
    # All days except this one and its neighbours, so that midnight during the test does not matter.
    near = {DAYS[(now + timedelta(days=days)).weekday()] for days in (-1, 0, 1)}
    begin, end = datetime(2026, 1, 1, 9).time(), datetime(2026, 1, 1, 16).time()
    closed = DeployWindow(tuple(day for day in DAYS if day not in near), begin, end, "UTC")
    await platform.change("shop/development", deploy_window=dump_window(closed))
    before = await platform.contents()
    answer = await _deploy(platform)
    assert answer.problem == (422, "outside-window")
    assert answer.json()["errors"] == [{"field": "window", "message": f"is {closed}"}]
    assert await platform.contents() == before
    always = DeployWindow(DAYS, begin, begin, "Europe/Oslo")
    await platform.change("shop/development", deploy_window=dump_window(always))
    assert (await _deploy(platform)).status == 202


async def test_deploy_to_hibernated_environment_is_422(platform: Platform) -> None:
    await platform.change("shop/development", state="hibernated")
    answer = await _deploy(platform)
    assert (answer.problem, answer.fields) == ((422, "environment-not-ready"), ["state"])
    await platform.change("shop/development", state="running")
    assert (await _deploy(platform)).status == 202


async def test_deploy_without_repository_is_422(platform: Platform) -> None:
    before = await platform.contents()
    answer = await _deploy(platform, name="blog/production")
    assert (answer.problem, answer.fields) == ((422, "environment-not-ready"), ["repository"])
    async with platform.sessions() as session, session.begin():
        await session.execute(update(Repository).values(disconnected_at=NOW))
    assert (await _deploy(platform)).problem == (422, "environment-not-ready")
    async with platform.sessions() as session:
        assert list((await session.execute(select(DeploymentLine.id))).all()) == [
            (row[0],) for row in before["deployment_lines"]
        ]


async def test_deploy_uses_changes_made_while_the_body_arrived(
    platform: Platform, body_is_read: asyncio.Event
) -> None:
    """The body may take 30 s. An environment that is hibernated meanwhile is not deployed."""

    async def change_meanwhile(**values: Any) -> AsyncIterator[bytes]:
        yield b"{"
        await body_is_read.wait()
        await platform.change("shop/development", **values)
        yield b"}"

    answer = await _deploy(platform, change_meanwhile(state="hibernated"))
    assert answer.problem == (422, "environment-not-ready")
    body_is_read.clear()
    answer = await _deploy(platform, change_meanwhile(state="running", deploys_need_approval=True))
    assert (answer.status, answer.data["status"]) == (202, "awaiting_approval")

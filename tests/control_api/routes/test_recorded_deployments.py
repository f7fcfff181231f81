"""`POST /v1/deployments`, on both databases."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from sqlalchemy import func, select

from control_api.app import build_control_app
from control_api.requests.deployment_report import read_report
from control_domain.audit import Actor
from control_domain.database.engine import Sessions
from control_domain.projects.find import DeployTarget
from control_domain.projects.operations import create_environment, create_ingest_key
from control_domain.removals.remove_environment import remove_environment
from control_domain.tables.projects import Environment, Project
from control_domain.tables.recorded_deployments import RecordedDeployment
from tests.support.accounts import make_acme
from tests.support.serve_control import VARIABLE_KEYS, serving_control

NOW = datetime.now(UTC)
PATH = "/api/v1/deployments"


@dataclass(frozen=True, slots=True)
class Answer:
    """A response."""

    status_code: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class Control:
    """The control plane, and the keys of two environments."""

    url: str
    http: aiohttp.ClientSession
    sessions: Sessions
    keys: list[str]
    environments: list[str]

    async def post(
        self, body: Any, *, environment: int = 0, headers: Mapping[str, str] | None = None
    ) -> "Answer":
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {
            "Authorization": f"Bearer {self.keys[environment]}",
            "Content-Type": "application/json",
            **(headers or {}),
        }
        async with self.http.post(self.url + PATH, data=content, headers=sent) as response:
            return Answer(response.status, response.headers, await response.read())


@pytest.fixture
async def control(sessions: Sessions) -> AsyncIterator[Control]:
    async with sessions() as session, session.begin():
        _, project, first = await make_acme(session, NOW)
        made = [first, await create_environment(session, project, "Two", "two", "production", NOW)]
        keys = [await create_ingest_key(session, environment, NOW) for environment in made]
    app = build_control_app(sessions, None, b"a receipt key of the test suite, 32+", VARIABLE_KEYS)  # type: ignore[arg-type]
    async with serving_control(app) as url, aiohttp.ClientSession() as http:
        yield Control(url, http, sessions, keys, [environment.public_id for environment in made])


def _report(**members: Any) -> dict[str, Any]:
    whole = {
        "deployment_id": "0190F3C2-7B5E-7A10-8C3D-2F4B6A8C0E1F",
        "version": "1.4.2",
        "service": "checkout",
        "service_namespace": "shop",
        "commit_sha": "9fceb02d0ae598e95dc970b74767f19372d61af8",
        "note": "fixes the cart",
        "deployed_at": "2026-11-20T12:00:00+02:00",
    }
    return {**whole, **members}


@pytest.mark.both_databases
async def test_first_report_is_201_and_a_repeat_is_200(control: Control) -> None:
    """The first report gets 201. A repeat gets 200 with the first report, even if its content differs."""
    first = await control.post(_report())
    assert first.status_code == 201
    data = first.json()["data"]
    recorded_at = data.pop("recorded_at")
    assert data == {
        **_report(),
        "deployment_id": "0190f3c2-7b5e-7a10-8c3d-2f4b6a8c0e1f",
        "deployed_at": "2026-11-20T10:00:00.000Z",
        "environment_id": control.environments[0],
    }
    other = _report(
        version="9", note=None, deployed_at="2027-01-01T00:00:00Z", deployment_id=data["deployment_id"]
    )
    again = await control.post(other)
    assert again.status_code == 200
    assert again.json()["data"] == {**data, "recorded_at": recorded_at}


async def test_deployment_ids_of_environments_are_independent(control: Control) -> None:
    assert [(await control.post(_report(), environment=n)).status_code for n in (0, 1, 1, 0)] == [
        201,
        201,
        200,
        200,
    ]


async def test_minimal_report_is_recorded(control: Control) -> None:
    # Responses have times in whole milliseconds.
    before = datetime.now(UTC).replace(microsecond=0)
    body = {"deployment_id": str(uuid.uuid4()), "version": "x", "note": None, "tomorrow": [1]}
    data = (await control.post(body)).json()["data"]
    assert (data["service"], data["note"], data["commit_sha"]) == (None, None, None)
    assert data["deployed_at"] == data["recorded_at"]
    assert before <= datetime.fromisoformat(data["deployed_at"]) <= datetime.now(UTC)


async def test_note_truncated_in_an_emoji_is_recorded(control: Control) -> None:
    body = {"deployment_id": str(uuid.uuid4()), "version": "x", "note": "fix \ud83d", "tomorrow": "\ude00"}
    answer = await control.post(body)
    assert (answer.status_code, answer.json()["data"]["note"]) == (201, "fix \ufffd")


@pytest.mark.both_databases
async def test_hundred_concurrent_reports_are_recorded_once(control: Control) -> None:
    """One report is 201, and all others are 200."""
    answers = await asyncio.gather(*(control.post(_report(version=f"v{n}")) for n in range(100)))
    assert sorted(answer.status_code for answer in answers) == [200] * 99 + [201]
    assert len({answer.json()["data"]["version"] for answer in answers}) == 1
    async with control.sessions() as session:
        assert (await session.execute(select(func.count()).select_from(RecordedDeployment))).scalar_one() == 1


BAD: list[tuple[Any, list[str]]] = [
    (b"", [""]),
    (b"[]", [""]),
    (b"{", [""]),
    (b'{"version": "\xff"}', ["deployment_id", "version"]),
    ({}, ["deployment_id", "version"]),
    ({"deployment_id": None, "version": None}, ["deployment_id", "version"]),
    (_report(deployment_id="17"), ["deployment_id"]),
    (_report(deployment_id=17), ["deployment_id"]),
    (_report(version=""), ["version"]),
    (_report(version="v" * 129), ["version"]),
    (_report(version=1.4), ["version"]),
    (_report(service="s" * 101), ["service"]),
    (_report(service_namespace="s" * 101), ["service_namespace"]),
    (_report(commit_sha="abcdef"), ["commit_sha"]),
    (_report(commit_sha="a" * 65), ["commit_sha"]),
    (_report(commit_sha="g" * 40), ["commit_sha"]),
    (_report(commit_sha="abcdef1\n"), ["commit_sha"]),
    (_report(note="n" * 1001), ["note"]),
    (_report(note="a\u0000b"), ["note"]),
    (_report(deployed_at="yesterday"), ["deployed_at"]),
    (_report(deployed_at="2026-11-20T12:00:00"), ["deployed_at"]),
    (_report(deployed_at=1_700_000_000), ["deployed_at"]),
    (_report(deployed_at="0001-01-01T00:00:00+14:00"), ["deployed_at"]),
    (_report(deployment_id="x", version=[], note=5, commit_sha=""), ["deployment_id", "version", "commit_sha", "note"]),
]  # fmt: skip


@pytest.mark.parametrize(("body", "fields"), BAD, ids=lambda value: str(value)[:60])
async def test_every_invalid_field_is_named(control: Control, body: Any, fields: list[str]) -> None:
    answer = await control.post(body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert [error["field"] for error in answer.json()["errors"]] == fields
    async with control.sessions() as session:
        assert (await session.execute(select(func.count()).select_from(RecordedDeployment))).scalar_one() == 0


async def test_headers_are_checked_before_the_body(control: Control) -> None:
    """401 before 415 before 413 before 422."""
    assert (await control.post(b"", headers={"Authorization": "", "Content-Type": "x/y"})).status_code == 401
    assert (
        await control.post(_report(), headers={"Authorization": "Bearer phr_ing_" + "a" * 38})
    ).status_code == 401
    assert (await control.post(b"{", headers={"Content-Type": "text/plain"})).status_code == 415
    assert (await control.post(b"{", headers={"Content-Encoding": "gzip"})).status_code == 415
    answer = await control.post(b" " * 70_000)
    assert (answer.status_code, answer.json()["type"]) == (413, "/problems/payload-too-large")
    ok = await control.post(_report(), headers={"Content-Type": "application/json; charset=utf-8"})
    assert ok.status_code == 201


def test_leap_second_becomes_the_following_second() -> None:
    sent = {"deployment_id": str(uuid.uuid4()), "version": "1", "deployed_at": "2016-12-31T23:59:60Z"}
    assert read_report(json.dumps(sent).encode()).deployed_at == datetime(2017, 1, 1, tzinfo=UTC)


@pytest.mark.both_databases
async def test_report_during_removal_of_the_environment_is_401(control: Control) -> None:
    async with control.sessions() as session, session.begin():
        query = select(Environment, Project).where(
            Environment.public_id == control.environments[0], Project.id == Environment.project_id
        )
        environment, project = (await session.execute(query)).one()
        await remove_environment(session, DeployTarget(environment, project), Actor("test"), NOW)
        reporting = [asyncio.create_task(control.post(_report())) for _ in range(4)]
        # By then they wait for the lock on Postgres, and for the writer on SQLite.
        await asyncio.sleep(0.2)
    answers = [*await asyncio.gather(*reporting), await control.post(_report())]
    assert [(one.status_code, one.json()["type"]) for one in answers] == [
        (401, "/problems/invalid-credential")
    ] * 5
    async with control.sessions() as session:
        assert (await session.execute(select(func.count()).select_from(RecordedDeployment))).scalar_one() == 0

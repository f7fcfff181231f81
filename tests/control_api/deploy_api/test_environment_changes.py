"""`PATCH …/scale`, `PATCH …/runtime` and `PUT …/variables`: their bodies and effects."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import delete, select

from control_api.requests import json_body
from control_domain.tables.audit import AuditEntry
from control_domain.tables.projects import Environment
from control_domain.tables.variables import VariableSet
from tests.support.deploy_platform import Platform, Response, environment_path

SCALE = ("PATCH", "scale", "replicas")
RUNTIME = ("PATCH", "runtime", "state")
VARIABLES = ("PUT", "variables", "variables")
OPERATIONS = [SCALE, RUNTIME, VARIABLES]
GOOD: dict[str, Any] = {
    "scale": {"replicas": 3},
    "runtime": {"state": "running"},
    "variables": {"variables": ""},
}
NAME = "shop/development"


async def _send(
    platform: Platform, operation: tuple[str, str, str], body: Any, name: str = NAME, **options: Any
) -> Response:
    path = environment_path(platform.acme.places[name], operation[1])
    return await platform.call(operation[0], path, body, **options)


async def _environment(platform: Platform, name: str = NAME) -> Environment:
    async with platform.sessions() as session:
        return await session.get_one(Environment, platform.acme.environment(name).id)


@pytest.mark.parametrize("replicas", [1, 2, 20])
async def test_scale_sets_the_replicas(shared: Platform, replicas: int) -> None:
    answer = await _send(shared, SCALE, {"replicas": replicas, "other": "ignored"})
    environment = shared.acme.environment(NAME)
    assert (answer.status, answer.data) == (
        202,
        {
            "id": environment.public_id,
            "name": "Development",
            "slug": "development",
            "type": "development",
            "desired_replicas": replicas,
            "state": "running",
        },
    )
    project = (await shared.call("GET", f"/v1/projects/{environment.project_id}")).data
    assert answer.data in project["environments"]


async def test_environment_hibernates_and_wakes(platform: Platform) -> None:
    states = []
    for state in ("hibernated", "hibernated", "running", "running", "hibernated"):
        answer = await _send(platform, RUNTIME, {"state": state})
        assert (answer.status, answer.data["state"]) == (202, state)
        states.append((await _environment(platform)).state)
    assert states == ["hibernated", "hibernated", "running", "running", "hibernated"]
    # Setting the present state again is no change and adds no entry.
    async with platform.sessions() as session:
        rows = (await session.execute(select(AuditEntry.details).order_by(AuditEntry.id))).scalars().all()
    assert rows == [
        '{"from": "running", "to": "hibernated"}',
        '{"from": "hibernated", "to": "running"}',
        '{"from": "running", "to": "hibernated"}',
    ]
    # The environment is scaled nevertheless.
    assert (await _send(platform, SCALE, {"replicas": 4})).data["desired_replicas"] == 4


WRONG: list[tuple[tuple[str, str, str], list[Any]]] = [
    (
        SCALE,
        [
            0,
            21,
            -1,
            2**31,
            2**64,
            10**400,
            1.5,
            1e9,
            "3",
            "",
            True,
            False,
            [],
            [3],
            {},
            {"replicas": 3},
            None,
        ],
    ),
    (
        RUNTIME,
        ["", "Running", "RUNNING", "stopped", "running ", "run\0ning", 1, True, [], ["running"], {}, None],
    ),
    (
        VARIABLES,
        [5, 1.5, True, [], ["A=1"], {}, {"A": "1"}, None, "A", "1A=x", "A=1\nA=2", 'A="', "A=\0", "a b=c"],
    ),
]


@pytest.mark.parametrize(
    ("operation", "value"),
    [(operation, value) for operation, values in WRONG for value in values],
    ids=lambda value: str(value)[:30],
)
async def test_invalid_value_is_422_and_changes_nothing(
    shared: Platform, operation: tuple[str, str, str], value: Any
) -> None:
    before = await shared.contents()
    answer = await _send(shared, operation, {operation[2]: value})
    assert (answer.problem, set(answer.fields)) == ((422, "validation-failed"), {operation[2]})
    assert await shared.contents() == before


async def test_invalid_lines_are_named_by_number_without_values(shared: Platform) -> None:
    answer = await _send(shared, VARIABLES, {"variables": "A=1\nsecret word\nB='x\n\nA=hidden"})
    assert [error["message"].partition(":")[0] for error in answer.json()["errors"]] == [
        "line 2",
        "line 3",
        "line 5",
    ]
    assert b"secret" not in answer.body
    assert b"hidden" not in answer.body


BODIES: list[tuple[bytes | None, dict[str, str | None], tuple[int, str]]] = [
    (None, {}, (415, "unsupported-media-type")),
    (b"", {}, (422, "validation-failed")),
    (b" ", {}, (422, "validation-failed")),
    (b"{}", {}, (422, "validation-failed")),
    (b"[]", {}, (422, "validation-failed")),
    (b'[{"replicas": 3}]', {}, (422, "validation-failed")),
    (b"null", {}, (422, "validation-failed")),
    (b"3", {}, (422, "validation-failed")),
    (b"{", {}, (422, "validation-failed")),
    (b"replicas=3", {}, (422, "validation-failed")),
    (b"{'replicas': 3}", {}, (422, "validation-failed")),
    (b'\xef\xbb\xbf{"replicas": 3}', {}, (422, "validation-failed")),
    (b'{"\xff": 1}', {}, (422, "validation-failed")),
    (b"[" * 60_000, {}, (422, "validation-failed")),
    (b"{}", {"Content-Type": "text/plain"}, (415, "unsupported-media-type")),
    (b"{}", {"Content-Type": "application/merge-patch+json"}, (415, "unsupported-media-type")),
    (b"{}", {"Content-Type": "application/x-www-form-urlencoded"}, (415, "unsupported-media-type")),
    (b"{}", {"Content-Encoding": "gzip"}, (415, "unsupported-media-type")),
    (b"{}", {"Content-Encoding": "br"}, (415, "unsupported-media-type")),
    (b" " * 2_000_000, {}, (413, "payload-too-large")),
]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation[1])
async def test_invalid_bodies_are_refused(shared: Platform, operation: tuple[str, str, str]) -> None:
    before = await shared.contents()
    for body, headers, problem in BODIES:
        answer = await _send(shared, operation, body, headers=headers)
        assert answer.problem == problem, (body or b"")[:40]
    assert await shared.contents() == before


async def test_variables_body_has_a_larger_limit(shared: Platform) -> None:
    """The largest text with every character escaped in JSON is accepted; one more byte of text is 422."""
    value = "".join(f"\\u{ord('x'):04x}" for _ in range(120_000))
    largest = f'{{"variables": "A={value}\\nB={value}"}}'.encode()
    assert (await _send(shared, VARIABLES, largest)).status == 200
    too_long = {"variables": f"A={'x' * 100_000}\nB={'x' * 100_000}\nC={'x' * 100_000}"}
    answer = await _send(shared, VARIABLES, too_long)
    assert (answer.problem, answer.fields) == ((422, "validation-failed"), ["variables"])
    for operation in (SCALE, RUNTIME):
        padded = b'{"replicas": 3, "state": "running"' + b" " * 70_000 + b"}"
        assert (await _send(shared, operation, padded)).status == 413


async def _unfinished(until: asyncio.Event, first: bytes = b"{") -> AsyncIterator[bytes]:
    yield first
    await until.wait()
    yield b"}"


def _bodies(platform: Platform) -> dict[str, tuple[str, str]]:
    """Return every operation that reads a body."""
    acme = platform.acme
    paths = {
        f"{method} {name}": (method, environment_path(acme.places[NAME], name))
        for method, name, _ in OPERATIONS
    }
    return {
        **paths,
        "deploy": ("POST", environment_path(acme.places[NAME], "deploy")),
        "promote": ("POST", f"/v1/deployments/{acme.deployments['development'].id}/promote"),
        "record": ("POST", "/v1/deployments"),
    }


async def test_body_that_does_not_arrive_is_408(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_body, "_READ_TIMEOUT_SECONDS", 0.05)
    before = await platform.contents()
    answered = asyncio.Event()
    for name, (method, path) in _bodies(platform).items():
        token = platform.acme.ingest_key if name == "record" else None
        answer = await platform.call(method, path, _unfinished(answered), token=token)
        assert answer.problem == (408, "request-timeout"), name
    answered.set()
    assert await platform.contents() == before


async def test_slow_bodies_do_not_block_other_callers(platform: Platform) -> None:
    """More slow bodies than database connections."""
    for name, (method, path) in _bodies(platform).items():
        finished = asyncio.Event()
        token = platform.acme.ingest_key if name == "record" else None
        slow = [
            asyncio.create_task(platform.call(method, path, _unfinished(finished), token=token))
            for _ in range(16)
        ]
        assert (await platform.call("GET", "/v1/projects")).status == 200, name
        assert (await _send(platform, SCALE, {"replicas": 9})).status == 202, name
        finished.set()
        assert {answer.status for answer in await asyncio.gather(*slow)} <= {202, 409, 422}


async def test_changes_made_while_the_body_arrived_are_kept(
    platform: Platform, body_is_read: asyncio.Event
) -> None:
    async def meanwhile(operation: tuple[str, str, str], value: Any, **changed: Any) -> AsyncIterator[bytes]:
        yield b"{"
        await body_is_read.wait()
        await platform.change(NAME, **changed)
        yield b'"%b": %b}' % (operation[2].encode(), value)

    # Scale to the number that the environment had when the body began to arrive.
    answer = await _send(platform, SCALE, meanwhile(SCALE, b"1", desired_replicas=5))
    assert (answer.data["desired_replicas"], (await _environment(platform)).desired_replicas) == (1, 1)
    body_is_read.clear()
    answer = await _send(platform, RUNTIME, meanwhile(RUNTIME, b'"running"', state="hibernated"))
    assert (answer.data["state"], (await _environment(platform)).state) == ("running", "running")
    body_is_read.clear()
    wanted = meanwhile(VARIABLES, b'"A=1"', variables_need_approval=True)
    answer = await _send(platform, VARIABLES, wanted)
    assert (answer.status, answer.data["status"]) == (202, "pending_approval")
    async with platform.sessions() as session:
        rows = (await session.execute(select(AuditEntry.details).order_by(AuditEntry.id))).scalars().all()
    assert rows[:2] == ['{"from": 5, "to": 1}', '{"from": "hibernated", "to": "running"}']


@pytest.mark.parametrize("operation", [*OPERATIONS, ("POST", "deploy", "ref")], ids=lambda given: given[1])
async def test_environment_removed_while_the_body_arrived_is_404(
    platform: Platform, body_is_read: asyncio.Event, operation: tuple[str, str, str]
) -> None:
    name = "blog/staging"
    body = GOOD.get(operation[1], {"ref": "main"})

    async def meanwhile() -> AsyncIterator[bytes]:
        yield b" "
        await body_is_read.wait()
        async with platform.sessions() as session, session.begin():
            mine = Environment.id == platform.acme.environment(name).id
            await session.execute(delete(Environment).where(mine))
        value = body[operation[2]]
        yield b'{"%b": %b}' % (
            operation[2].encode(),
            str(value).encode() if isinstance(value, int) else f'"{value}"'.encode(),
        )

    answer = await _send(platform, operation, meanwhile(), name)
    assert answer.problem == (404, "not-found")
    assert answer.body == (await _send(platform, operation, body, name)).body


@pytest.mark.both_databases
async def test_concurrent_changes_are_serialized(platform: Platform) -> None:
    """Each audit entry starts with the state in which the previous one ended."""
    numbers = [1 + n % 20 for n in range(30)]
    answers = await asyncio.gather(*(_send(platform, SCALE, {"replicas": n}) for n in numbers))
    assert [answer.data["desired_replicas"] for answer in answers] == numbers
    async with platform.sessions() as session:
        query = (
            select(AuditEntry.details).where(AuditEntry.action == "environment.scale").order_by(AuditEntry.id)
        )
        moves = [json.loads(details) for details in (await session.execute(query)).scalars()]
    assert [move["from"] for move in moves] == [1, *(move["to"] for move in moves[:-1])]
    assert (await _environment(platform)).desired_replicas == moves[-1]["to"]
    async with platform.sessions() as session:
        assert (await session.execute(select(VariableSet.id))).all() == []

"""`PUT …/workflow`: versions, their use by deployments, and errors."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request
from sqlalchemy import delete, select

from control_api.document_errors import converting_document_faults
from control_api.reference.load_document import load_document
from control_api.requests import json_body
from control_domain.audit import Actor
from control_domain.documents.faults import DocumentFault, Fault
from control_domain.documents.strict_yaml import read_yaml
from control_domain.removals.remove_project import remove_project
from control_domain.tables.accounts import Account
from control_domain.tables.audit import AuditEntry
from control_domain.tables.projects import Environment
from control_domain.tables.workflows import Workflow
from deployer.deployments.begin_attempt import begin_attempt
from deployer.identity import Identity
from deployer.leases import take_lease
from pipeline_contracts.errors import InvalidInput
from tests.support.deploy_platform import Platform, Response, environment_path
from tests.support.serve_control import VARIABLE_KEYS

TEXT = "version: 1\nprocesses:\n  web: {command: serve}  # one\n"
DOCUMENT = {
    "version": 1,
    "build": {"steps": [], "timeout_seconds": 900},
    "release": {"steps": [], "timeout_seconds": 900},
    "processes": {"web": {"command": "serve"}},
    "triggers": {"push": {}},
    "retain": 5,
}
REFUSED = (422, "validation-failed")
# In JSON this character takes 12 bytes, the maximum of a character.
ASTRAL = "\U0001f680"


def _path(platform: Platform, project: str = "shop") -> str:
    return f"/v1/projects/{platform.acme.projects[project].public_id}/workflow"


async def _put(platform: Platform, text: str, project: str = "shop", who: str = "owner") -> Response:
    token = platform.acme.token(who)
    return await platform.call("PUT", _path(platform, project), {"workflow": text}, token=token)


async def _stored(platform: Platform, project: str = "shop") -> list[tuple[int, str, int | None]]:
    """Return each version of the project: its number, text and author."""
    query = (
        select(Workflow.version, Workflow.text, Workflow.set_by_id)
        .where(Workflow.project_id == platform.acme.projects[project].id)
        .order_by(Workflow.id)
    )
    async with platform.sessions() as session:
        return [(row.version, row.text, row.set_by_id) for row in await session.execute(query)]


def _padded(length: int, fill: str) -> str:
    """Return a valid document of `length` characters, padded with a comment."""
    return f"{TEXT}#{fill * (length - len(TEXT) - 1)}"


@pytest.mark.both_databases
async def test_each_new_text_is_a_version(platform: Platform) -> None:
    other = f"{TEXT}retain: 9\n"
    answers = [
        await _put(platform, TEXT),
        await _put(platform, TEXT, who="admin"),
        await _put(platform, other, who="deployer"),
        await _put(platform, TEXT),
    ]
    assert [(answer.status, answer.json()) for answer in answers] == [
        (200, {"data": document}) for document in (DOCUMENT, DOCUMENT, {**DOCUMENT, "retain": 9}, DOCUMENT)
    ]
    people = platform.acme.people
    assert await _stored(platform) == [
        (1, TEXT, people["owner"].id),
        (2, other, people["deployer"].id),
        (3, TEXT, people["owner"].id),
    ]
    # Versions are counted in each project separately.
    assert (await _put(platform, other, "blog")).status == 200
    assert [version for version, _, _ in await _stored(platform, "blog")] == [1]


@pytest.mark.both_databases
async def test_next_deployment_uses_the_workflow(platform: Platform) -> None:
    await _put(platform, f"{TEXT}retain: 1")
    await _put(platform, TEXT)
    target = platform.acme.places["shop/production"]
    number = (await platform.call("POST", environment_path(target, "deploy"))).data["id"]
    identity = Identity("dpl_test", "here", 1, Path("/nowhere"))
    lease = await take_lease(platform.sessions, identity, target.environment.id, "http://here")
    assert lease is not None
    job = await begin_attempt(platform.sessions, lease, VARIABLE_KEYS, number)
    assert job is not None and job.workflow == TEXT


@pytest.mark.both_databases
async def test_each_version_adds_an_audit_entry(platform: Platform) -> None:
    for text in (TEXT, TEXT, f"{TEXT}retain: 2", "version: 2"):
        await _put(platform, text, who="deployer")
    async with platform.sessions() as session:
        mine = select(AuditEntry).where(AuditEntry.action.startswith("workflow."))
        entries = (await session.execute(mine.order_by(AuditEntry.id))).scalars().all()
    subject, person = (
        f"project {platform.acme.projects['shop'].public_id}",
        platform.acme.people["deployer"].id,
    )
    assert [(one.action, one.subject, one.person_id, json.loads(one.details)) for one in entries] == [
        ("workflow.set", subject, person, {"version": version}) for version in (1, 2)
    ]
    assert all(one.token_id and one.request_id and one.source == "127.0.0.1" for one in entries)


async def test_reference_example_gets_the_documented_response(platform: Platform) -> None:
    told = load_document()["paths"]["/v1/projects/{project}/workflow"]["put"]
    body = told["requestBody"]["content"]["application/json"]["example"]
    expected = told["responses"]["200"]["content"]["application/json"]["example"]
    answer = await platform.call("PUT", _path(platform), body)
    assert (answer.status, answer.json()) == (200, expected)


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("", [("", 1, "is empty")]),
        ("version: [1", [("", 1, "is no YAML: ")]),
        ("- 1\n- 2", [("", 1, "must be a mapping, not a list")]),
        (f"{TEXT}version: 1", [(".version", 4, "is given already on line 1")]),
        (f"{TEXT}retian: 3", [(".retian", 4, "unknown; do you mean retain?")]),
        (
            f"{TEXT}build:\n  steps:\n    - a\n    - 5",
            [(".build.steps[1]", 7, "must be text, not a whole number")],
        ),
        (
            f"{TEXT}retain: !!python/name:os.system 1",
            [(".retain", 4, "has the tag '!!python/name:os.system'")],
        ),
        (
            f"{TEXT}? {{a: 1, a: 2}}\n: 1",
            [(".a", 4, "is given already on line 4"), ("", 4, "a key is not text")],
        ),
        (f'{TEXT}"\\e[31m": 1', [(r".'\x1b[31m'", 4, "unknown; known are")]),
        (f"{TEXT}# \0", [("", 4, "the character U+0000 is not allowed")]),
        (
            "version: 1\nprocesses:\n  web: {replicas: 2}\nretain: 0",
            [
                (".processes.web.command", 3, "is missing"),
                (".processes.web.replicas", 3, "the environment sets the number of replicas of web"),
                (".retain", 4, "must be 1 to 50"),
            ],
        ),
        (_padded(50_001, "x"), [("", 1, "has more than 50,000 characters")]),
        (_padded(50_001, ASTRAL), [("", 1, "has more than 50,000 characters")]),
    ],
    ids=range(13),
)
async def test_errors_name_path_and_line(
    shared: Platform, text: str, faults: list[tuple[str, int, str]]
) -> None:
    before = await shared.contents()
    answer = await _put(shared, text)
    assert answer.problem == REFUSED
    errors = answer.json()["errors"]
    assert [(error["field"], error["line"]) for error in errors] == [
        (f"workflow{place}", line) for place, line, _ in faults
    ]
    for error, (_, line, message) in zip(errors, faults, strict=True):
        assert error["message"].startswith(f"line {line}: {message}")
        assert set(error) == {"field", "line", "message"}
    assert await shared.contents() == before


async def test_refused_document_keeps_the_current_one(platform: Platform) -> None:
    await _put(platform, TEXT)
    before = await platform.contents()
    answer = await _put(platform, f"{TEXT}retain: many")
    assert (answer.problem, answer.fields) == (REFUSED, ["workflow.retain"])
    assert "Nothing was changed" in answer.json()["detail"]
    assert await platform.contents() == before


async def test_at_most_twenty_errors_are_listed(shared: Platform) -> None:
    answer = await _put(shared, TEXT + "".join(f"key{number}: 1\n" for number in range(30)))
    assert [error["line"] for error in answer.json()["errors"]] == list(range(4, 24))


@pytest.mark.parametrize("fill", ["x", "é", ASTRAL], ids=["ASCII", "two bytes", "beyond U+FFFF"])
async def test_longest_document_is_accepted(platform: Platform, fill: str) -> None:
    """Checks different characters, plain and escaped in JSON."""
    text = _padded(50_000, fill)
    escaped = text.encode("utf-16-be").hex()
    units = "".join(f"\\u{escaped[at : at + 4]}" for at in range(0, len(escaped), 4))
    body = f'{{"workflow": "{units}"}}'
    answer = await platform.call("PUT", _path(platform), body.encode())
    assert (answer.status, answer.data) == (200, DOCUMENT)
    assert [stored for _, stored, _ in await _stored(platform)] == [text]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'"x"', b"workflow: 1", b'{"workflow": "\\ud800"}'], ids=str
)
async def test_body_that_is_not_an_object_is_422(shared: Platform, body: bytes) -> None:
    before = await shared.contents()
    answer = await shared.call("PUT", _path(shared), body)
    assert (answer.problem, answer.fields) == (REFUSED, [""])
    assert await shared.contents() == before


@pytest.mark.parametrize("value", [5, 1.5, True, [], [TEXT], {}, {"version": 1}, None], ids=str)
async def test_value_that_is_not_a_string_is_422(shared: Platform, value: Any) -> None:
    before = await shared.contents()
    answer = await shared.call("PUT", _path(shared), {"workflow": value})
    assert answer.problem == REFUSED
    is_missing = "is required; " if value is None else ""
    assert answer.json()["errors"] == [
        {"field": "workflow", "message": f"{is_missing}must be a string of YAML"}
    ]
    assert await shared.contents() == before


async def test_bodies_refused_before_they_are_read(shared: Platform) -> None:
    before = await shared.contents()
    for body, headers, problem in (
        (None, {}, (415, "unsupported-media-type")),
        (b"{}", {"Content-Type": "application/yaml"}, (415, "unsupported-media-type")),
        (b"{}", {"Content-Encoding": "gzip"}, (415, "unsupported-media-type")),
        (b" " * 2_000_000, {}, (413, "payload-too-large")),
    ):
        answer = await shared.call("PUT", _path(shared), body, headers=headers)
        assert answer.problem == problem
    assert (await shared.call("PUT", _path(shared), {"document": TEXT})).fields == ["workflow"]
    assert await shared.contents() == before


@pytest.mark.both_databases
async def test_setting_the_workflow_needs_the_deploy_right(shared: Platform) -> None:
    before = await shared.contents()
    for who in ("viewer", "stranger"):
        assert (await _put(shared, TEXT, who=who)).problem == (403, "deploy-not-allowed")
    for project in shared.other.projects.values():
        for identity in (project.public_id, project.id):
            answer = await shared.call("PUT", f"/v1/projects/{identity}/workflow", {"workflow": TEXT})
            assert answer.problem == (404, "not-found")
    reader = shared.acme.token("owner", frozenset({"deploy:read"}))
    answer = await shared.call("PUT", _path(shared), {"workflow": TEXT}, token=reader)
    assert answer.problem == (403, "missing-scope")
    assert await shared.contents() == before


async def _unfinished(until: asyncio.Event) -> AsyncIterator[bytes]:
    yield b"{"
    await until.wait()
    yield b"}"


async def test_body_that_does_not_arrive_is_408(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_body, "_READ_TIMEOUT_SECONDS", 0.05)
    answered = asyncio.Event()
    answer = await platform.call("PUT", _path(platform), _unfinished(answered))
    answered.set()
    assert answer.problem == (408, "request-timeout")


async def test_slow_bodies_do_not_block_other_callers(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More slow bodies than database connections."""
    reading, finished = asyncio.Semaphore(0), asyncio.Event()
    read = json_body._read_stream

    async def read_and_count(request: Request, most: int) -> bytes:
        reading.release()
        return await read(request, most)

    async def all_are_read() -> None:
        for _ in slow:
            await reading.acquire()

    monkeypatch.setattr(json_body, "_read_stream", read_and_count)
    slow = [
        asyncio.create_task(platform.call("PUT", _path(platform), _unfinished(finished))) for _ in range(16)
    ]
    awaited = asyncio.create_task(all_are_read())
    try:
        # A request that gets no connection receives its response earlier.
        await asyncio.wait({awaited, *slow}, return_when=asyncio.FIRST_COMPLETED)
        assert awaited.done()
        assert (await _put(platform, TEXT)).status == 200
    finally:
        finished.set()
        awaited.cancel()
        answers = await asyncio.gather(*slow, return_exceptions=True)
    assert [answer.problem for answer in answers if isinstance(answer, Response)] == [REFUSED] * 16


@pytest.mark.both_databases
async def test_project_removed_while_the_body_arrived_is_404(
    platform: Platform, body_is_read: asyncio.Event
) -> None:
    blog = platform.acme.projects["blog"]

    async def meanwhile() -> AsyncIterator[bytes]:
        yield b" "
        await body_is_read.wait()
        async with platform.sessions() as session, session.begin():
            await session.execute(delete(Environment).where(Environment.project_id == blog.id))
            account = await session.get_one(Account, blog.account_id)
            await remove_project(session, account, blog, Actor("somebody"), datetime.now(UTC))
        yield json.dumps({"workflow": TEXT}).encode()

    answer = await platform.call("PUT", _path(platform, "blog"), meanwhile())
    assert answer.problem == (404, "not-found")
    assert answer.body == (await _put(platform, TEXT, "blog")).body


@pytest.mark.parametrize(
    ("path", "field"),
    [("", "document"), ("a", "document.a"), ("[0].a", "document[0].a"), ("a[2]", "document.a[2]")],
)
def test_error_path_starts_with_the_body_field(path: str, field: str) -> None:
    with pytest.raises(InvalidInput) as refused, converting_document_faults("document"):
        raise DocumentFault([Fault(path, 7, "is wrong")])
    assert refused.value.to_document()["errors"] == [
        {"field": field, "message": "line 7: is wrong", "line": 7}
    ]


def test_all_kinds_of_documents_get_the_same_errors() -> None:
    with pytest.raises(InvalidInput) as refused, converting_document_faults("document"):
        read_yaml("- {a: 1, a: 2}")
    assert [error.field for error in refused.value.errors] == ["document[0].a"]

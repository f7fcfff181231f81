"""Workflows as an operator handles them, on both databases."""

import asyncio
from typing import Any

import pytest

from control_domain.audit import Actor
from control_domain.documents.faults import DocumentFault
from control_domain.projects.operations import create_project
from control_domain.tables.workflows import Workflow
from control_domain.workflows.operations import find_newest_workflow, set_workflow
from pipeline_contracts.errors import NotFound
from tests.support.managed_project import NOW, ManagedProject

TEXT = "version: 1\nprocesses:\n  web: {command: serve}  # one\n"
DOCUMENT = {
    "version": 1,
    "build": {"steps": [], "timeout_seconds": 900},
    "release": {"steps": [], "timeout_seconds": 900},
    "processes": {"web": {"command": "serve"}},
    "triggers": {"push": {}},
    "retain": 5,
}


def _project(managed: ManagedProject) -> dict[str, Any]:
    return {"id": managed.project.public_id, "name": managed.project.name, "slug": "shop"}


async def test_a_workflow_is_set_and_shown(managed: ManagedProject) -> None:
    assert await managed.act("workflows/show") == {
        "project": _project(managed),
        "version": None,
        "text": None,
        "document": None,
        "fault": None,
        "created_at": None,
        "set_by": None,
    }
    told = await managed.act("workflows/set", text=TEXT)
    assert told == {"project": _project(managed), "version": 1, "document": DOCUMENT}
    assert await managed.act("workflows/show", project_id="shop") == {
        "project": _project(managed),
        "version": 1,
        "text": TEXT,
        "document": DOCUMENT,
        "fault": None,
        "created_at": "2026-11-18T12:00:00.000Z",
        "set_by": None,
    }
    subject = f"project {managed.project.public_id}"
    assert await managed.read_audit_log() == [("workflow.set", subject, None, "operator kim", {"version": 1})]


async def test_each_different_text_is_a_new_version(managed: ManagedProject) -> None:
    versions = []
    for text in (TEXT, TEXT, f"{TEXT}retain: 9\n", f"{TEXT}retain: 9\n", TEXT):
        versions.append((await managed.act("workflows/set", text=text))["version"])
    assert versions == [1, 1, 2, 2, 3]
    assert await managed.count(Workflow) == 3 == len(await managed.read_audit_log())


async def test_versions_are_counted_in_each_project(managed: ManagedProject) -> None:
    async with managed.engines.sessions() as session, session.begin():
        await create_project(session, managed.account, "Blog", "blog", NOW)
    assert "There are several projects" in await managed.expect_refusal("workflows/set", text=TEXT)
    for project in ("shop", "blog"):
        assert (await managed.act("workflows/set", text=TEXT, project_id=project))["version"] == 1
    told = await managed.act("workflows/set", text=f"{TEXT}retain: 1", project_id="blog")
    assert (told["version"], told["document"]["retain"]) == (2, 1)
    assert (await managed.act("workflows/show", project_id="shop"))["text"] == TEXT
    assert "There is no project nowhere" in await managed.expect_refusal(
        "workflows/show", project_id="nowhere"
    )


@pytest.mark.both_databases
async def test_who_set_it_is_shown(managed: ManagedProject) -> None:
    actor = Actor("203.0.113.7", managed.people["deployer"].id)
    async with managed.engines.sessions() as session, session.begin():
        version, document = await set_workflow(session, managed.project, TEXT, actor, NOW)
    assert (version, document.processes["web"].command) == (1, "serve")
    assert (await managed.act("workflows/show"))["set_by"] == "deployer@acme.example"


@pytest.mark.parametrize("action", ["workflows/set", "workflows/check"])
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "line 1: is empty."),
        (None, "line 1: is empty."),
        ("a" * 50_001, "line 1: has more than 50,000 characters."),
        (
            "version: 1\nprocesses:\n  web: {replicas: 2}\nretain: 0",
            "line 3: processes.web.command: is missing; line 3: processes.web.replicas: how many of web run is said by "
            "the environment: leave it out; line 4: retain: must be 1 to 50.",
        ),
        (f"{TEXT}retian: 1", "line 4: retian: unknown; do you mean retain?"),
        (f'{TEXT}"\\e[31m": 1', "line 4: '\\x1b[31m': unknown; known are"),
    ],
    ids=range(6),
)
async def test_faults_are_reported_with_their_lines(
    managed: ManagedProject, action: str, text: str | None, told: str
) -> None:
    line = await managed.expect_refusal(action, text=text)
    assert line.startswith(told) and line.endswith(" Correct this and send it again; nothing was changed.")
    assert await managed.count(Workflow) == 0


async def test_checking_stores_nothing(managed: ManagedProject) -> None:
    assert await managed.act("workflows/check", text=TEXT) == {"document": DOCUMENT}
    assert await managed.count(Workflow) == 0 and await managed.read_audit_log() == []


@pytest.mark.both_databases
async def test_eight_concurrent_texts_get_a_version_each(managed: ManagedProject) -> None:
    told = await asyncio.gather(
        *(managed.act("workflows/set", text=f"{TEXT}retain: {n}\n") for n in range(1, 9))
    )
    assert sorted(one["version"] for one in told) == list(range(1, 9))
    newest = max(told, key=lambda one: one["version"])
    assert (await managed.act("workflows/show"))["document"] == newest["document"]


@pytest.mark.both_databases
async def test_eight_concurrent_equal_texts_make_one_version(managed: ManagedProject) -> None:
    told = await asyncio.gather(*(managed.act("workflows/set", text=TEXT) for _ in range(8)))
    assert [one["version"] for one in told] == [1] * 8
    assert await managed.count(Workflow) == 1


async def test_a_removed_project_gets_no_workflow(managed: ManagedProject) -> None:
    async with managed.engines.sessions() as session, session.begin():
        blog = await create_project(session, managed.account, "Blog", "blog", NOW)
    await managed.act("workflows/set", text=TEXT, project_id="blog")
    await managed.act("projects/remove", id="blog")
    async with managed.engines.sessions() as session:
        assert await find_newest_workflow(session, blog.id) is None
        with pytest.raises(NotFound):
            await set_workflow(session, blog, TEXT, Actor("operator"), NOW)
        with pytest.raises(DocumentFault):
            await set_workflow(session, blog, "", Actor("operator"), NOW)


async def test_a_stored_text_that_is_now_invalid_is_shown(managed: ManagedProject) -> None:
    """A later version may be stricter than the one that took it."""
    async with managed.engines.sessions() as session, session.begin():
        session.add(Workflow(project_id=managed.project.id, version=7, text="version: 0", created_at=NOW))
    told = await managed.act("workflows/show")
    assert (told["version"], told["text"], told["document"]) == (7, "version: 0", None)
    assert told["fault"].startswith("line 1: version: must be 1")
    assert (await managed.act("workflows/set", text=TEXT))["version"] == 8

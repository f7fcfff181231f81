"""Versions of workflows."""

import asyncio

import pytest

from control_domain.projects.operations import create_project
from control_domain.tables.projects import Project
from control_domain.tables.workflows import Workflow
from control_domain.workflows.operations import find_newest_workflow, set_workflow
from tests.support.managed_project import NOW, ManagedProject

TEXT = "version: 1\nprocesses:\n  web: {command: serve}  # one\n"


async def _set(managed: ManagedProject, text: str = TEXT, project: Project | None = None) -> int:
    async with managed.engines.sessions() as session, session.begin():
        found = await session.get_one(Project, (project or managed.project).id)
        version, _ = await set_workflow(session, found, text, managed.actor(), NOW)
        return version


async def _newest(managed: ManagedProject, project: Project) -> str | None:
    async with managed.engines.sessions() as session:
        newest = await find_newest_workflow(session, project.id)
        return None if newest is None else newest.text


async def test_each_different_text_is_a_new_version(managed: ManagedProject) -> None:
    more = f"{TEXT}retain: 9\n"
    assert [await _set(managed, text) for text in (TEXT, TEXT, more, more, TEXT)] == [1, 1, 2, 2, 3]
    assert await managed.count(Workflow) == 3 == len(await managed.read_audit_log())


async def test_versions_are_counted_in_each_project(managed: ManagedProject) -> None:
    async with managed.engines.sessions() as session, session.begin():
        blog = await create_project(session, managed.account, "Blog", "blog", NOW)
    assert [await _set(managed), await _set(managed, project=blog)] == [1, 1]
    assert await _set(managed, f"{TEXT}retain: 1", blog) == 2
    assert await _newest(managed, managed.project) == TEXT


@pytest.mark.both_databases
async def test_eight_concurrent_texts_get_a_version_each(managed: ManagedProject) -> None:
    texts = [f"{TEXT}retain: {number}\n" for number in range(1, 9)]
    versions = await asyncio.gather(*(_set(managed, text) for text in texts))
    assert sorted(versions) == list(range(1, 9))
    assert await _newest(managed, managed.project) == texts[versions.index(8)]


@pytest.mark.both_databases
async def test_eight_concurrent_equal_texts_make_one_version(managed: ManagedProject) -> None:
    assert await asyncio.gather(*(_set(managed) for _ in range(8))) == [1] * 8
    assert await managed.count(Workflow) == 1


async def test_a_later_version_follows_one_that_is_no_longer_accepted(managed: ManagedProject) -> None:
    async with managed.engines.sessions() as session, session.begin():
        session.add(Workflow(project_id=managed.project.id, version=7, text="version: 0", created_at=NOW))
    assert await _set(managed) == 8

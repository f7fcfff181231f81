"""Turning a gate on also gates the previews with copies of the environment's variables."""

import asyncio

import pytest

from control_domain.environments.gates import lock_variables_source
from control_domain.previews.operations import find_previews
from control_domain.projects.resolve import resolve_target
from control_domain.tables.projects import UNKNOWN_SOURCE_ID, Environment
from tests.support.managed_project import ManagedProject


async def _open(managed: ManagedProject, branch: str, source: str | None) -> Environment:
    target, _ = await managed.open_preview(branch, source)
    return target.environment


async def _find(managed: ManagedProject, branch: str) -> Environment:
    async with managed.engines.sessions() as session:
        (found,) = await find_previews(session, managed.project, branch)
    return found


@pytest.mark.both_databases
async def test_previews_with_copies_are_gated_and_named(managed: ManagedProject) -> None:
    await managed.act("variables/set", environment_id="production", text="SECRET=1")
    copy = await _open(managed, "feature", "production")
    copy_of_copy = await _open(managed, "second", "preview-feature")
    other = await _open(managed, "third", None)
    told = await managed.act("environments/set", id="production", deploy_approval=True)
    assert told["gated_previews"] == [copy.slug, copy_of_copy.slug]
    gated = [
        (await _find(managed, branch)).deploys_need_approval for branch in ("feature", "second", "third")
    ]
    assert gated == [True, True, False]
    await managed.act("variables/set", environment_id=other.public_id, text="OWN=1")
    assert "gated_previews" not in await managed.act("environments/set", id="production", order=3)
    details = {"deploys_need_approval": {"from": False, "to": True}, "variables_of": "production"}
    noted = {entry[1]: entry[-1] for entry in await managed.read_audit_log() if entry[0] == "environment.set"}
    assert noted[f"environment {copy.public_id}"] == details


async def test_a_copy_of_an_earlier_version_may_be_of_any_environment(managed: ManagedProject) -> None:
    preview = await _open(managed, "feature", None)
    await managed.change(Environment, preview.id, variables_of_id=UNKNOWN_SOURCE_ID)
    told = await managed.act("environments/set", id="production", deploy_approval=True)
    assert told["gated_previews"] == [preview.slug]


async def test_environments_without_copies_are_not_gated(managed: ManagedProject) -> None:
    """All variables are protected, or there are none."""
    await _open(managed, "feature", "production")
    told = await managed.act("environments/set", id="production", deploy_approval=True)
    assert told["gated_previews"] == []


# SQLite lets one transaction write at a time.
@pytest.mark.parametrize("prepared_project", ["postgres"], indirect=True, scope="module")
async def test_a_gate_waits_for_a_copy_in_progress(managed: ManagedProject) -> None:
    await managed.act("variables/set", environment_id="production", text="SECRET=1")
    async with managed.engines.sessions() as session, session.begin():
        await lock_variables_source(session, (await resolve_target(session, "production")).environment)
        setting = asyncio.create_task(managed.act("environments/set", id="production", deploy_approval=True))
        opened = asyncio.create_task(_open(managed, "feature", "production"))
        preview = await opened
        assert not setting.done()
    assert (await setting)["gated_previews"] == [preview.slug]

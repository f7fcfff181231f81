"""Turning a gate on also gates the previews with copies of the environment's variables."""

import asyncio

import pytest

from control_domain.environments.gates import lock_variables_source
from control_domain.tables.projects import UNKNOWN_SOURCE_ID, Environment
from pipeline_contracts.errors import Conflict, InvalidInput
from tests.support.managed_project import ManagedProject


async def _open(managed: ManagedProject, branch: str, source: str | None) -> Environment:
    target, _ = await managed.open_preview(branch, source)
    return target.environment


@pytest.mark.both_databases
async def test_previews_with_copies_are_gated_and_named(managed: ManagedProject) -> None:
    await managed.set_variables("SECRET=1")
    copy = await _open(managed, "feature", "production")
    second = await _open(managed, "second", "production")
    other = await _open(managed, "third", None)
    assert await managed.change_settings(deploys_need_approval=True) == [copy.slug, second.slug]
    gated = [
        (await managed.find(preview.slug)).environment.deploys_need_approval
        for preview in (copy, second, other)
    ]
    assert gated == [True, True, False]
    # Variables that were set in the preview are not a copy.
    await managed.set_variables("OWN=1", other.slug)
    assert await managed.change_settings(order=3) == []
    details = {"deploys_need_approval": {"from": False, "to": True}, "variables_of": "production"}
    noted = {entry[1]: entry[-1] for entry in await managed.read_audit_log() if entry[0] == "environment.set"}
    assert noted[f"environment {copy.public_id}"] == details


async def test_a_copy_of_an_earlier_version_may_be_of_any_environment(managed: ManagedProject) -> None:
    preview = await _open(managed, "feature", None)
    await managed.change(Environment, preview.id, variables_of_id=UNKNOWN_SOURCE_ID)
    assert await managed.change_settings(deploys_need_approval=True) == [preview.slug]


async def test_environments_without_copies_are_not_gated(managed: ManagedProject) -> None:
    """There are no variables to copy."""
    await _open(managed, "feature", "production")
    assert await managed.change_settings(deploys_need_approval=True) == []


async def test_previews_are_no_source(managed: ManagedProject) -> None:
    """A copy of a copy would contain variables that were protected since, and hide which gate applies."""
    await managed.set_variables("SECRET=1")
    first = await _open(managed, "feature", "production")
    await managed.protect_variables("SECRET")
    before = await managed.read_audit_log()
    with pytest.raises(InvalidInput) as refused:
        await _open(managed, "second", first.slug)
    assert [(error.field, error.message) for error in refused.value.errors] == [
        ("variables_from", "must be the ID of an environment that is no preview")
    ]
    assert await managed.read_audit_log() == before


async def test_a_copy_that_would_wait_for_approval_is_refused(managed: ManagedProject) -> None:
    await managed.set_variables("SECRET=1")
    await managed.add_environment()
    preview = await _open(managed, "feature", "production")
    await managed.change_settings(preview.slug, variables_need_approval=True)
    before = await managed.read_audit_log()
    with pytest.raises(Conflict, match="preview-feature need the approval of a second person"):
        await _open(managed, "feature", "staging")
    assert await managed.read_audit_log() == before
    assert await managed.change_settings(deploys_need_approval=True) == [preview.slug]


# SQLite lets one transaction write at a time.
@pytest.mark.parametrize("prepared_project", ["postgres"], indirect=True, scope="module")
async def test_a_gate_waits_for_a_copy_in_progress(managed: ManagedProject) -> None:
    await managed.set_variables("SECRET=1")
    async with managed.engines.sessions() as session, session.begin():
        await lock_variables_source(session, (await managed.read_target(session)).environment)
        setting = asyncio.create_task(managed.change_settings(deploys_need_approval=True))
        preview = await _open(managed, "feature", "production")
        assert not setting.done()
    assert await setting == [preview.slug]

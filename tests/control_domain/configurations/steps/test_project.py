"""Changes of the project itself by a configuration, on both databases."""

import pytest
from sqlalchemy import update

from control_domain.configurations.addresses import PROJECT
from control_domain.configurations.plan import Action
from control_domain.configurations.resources import MASK
from control_domain.configurations.steps.step_context import Publications
from control_domain.tables.projects import Project
from tests.support.changed_project import ChangedProject


async def test_a_project_is_renamed(configured: ChangedProject) -> None:
    action = await configured.plan_one(PROJECT, {"name": "Store"})
    assert await configured.apply_step(action) == Publications()
    assert await configured.fields(PROJECT) == {"name": "Store"}
    assert await configured.audited() == [("project.set", {"name": {"from": "Shop", "to": "Store"}})]
    await configured.repeated(action)


async def test_a_name_changed_since_the_plan_is_not_changed(configured: ChangedProject) -> None:
    action = await configured.plan_one(PROJECT, {"name": "tops3cret"}, bound=["name"])
    await configured.plan_and_apply(PROJECT, {"name": "Main"})
    assert await configured.refused(action) == "project was changed meanwhile: name; make a new review."


@pytest.mark.both_databases
async def test_a_change_waits_for_a_concurrent_renaming(configured: ChangedProject) -> None:
    action = await configured.plan_one(PROJECT, {"name": "Store"})
    async with configured.while_uncommitted(action) as session:
        await session.execute(update(Project).values(name="Main"))


async def test_a_name_that_a_binding_gave_is_not_in_the_audit_log(configured: ChangedProject) -> None:
    await configured.plan_and_apply(PROJECT, {"name": "tops3cret"}, bound=["name"])
    masked = {"from": MASK, "to": MASK, "sensitive": True}
    assert await configured.audited() == [("project.set", {"name": masked})]


async def test_no_configuration_removes_a_project(configured: ChangedProject) -> None:
    assert await configured.refused(Action("delete", PROJECT, [])) == (
        "A configuration cannot remove a project: remove the project directly."
    )

"""Environments that a configuration creates, changes and removes, on both databases."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import select

from control_domain.configurations.plan import Action, Change
from control_domain.configurations.resources import FIELDS, MASK
from control_domain.configurations.steps.step_context import Publications, StepFailed
from control_domain.environments.operations import scale_environment
from control_domain.previews.operations import PREVIEW
from control_domain.projects.operations import create_environment, create_project
from control_domain.tables.projects import Environment, EnvironmentLock, IngestKey
from tests.support.changed_project import PRODUCTION, SOURCE, STAGING, ChangedProject
from tests.support.managed_project import NOW

WINDOW = {"days": ["mon", "thu"], "from": "09:00", "to": "16:00", "timezone": "Europe/Oslo"}
OTHERWISE: dict[str, Any] = {
    "name": "Live",
    "type": "staging",
    "order": 9,
    "branch": "release",
    "replicas": 3,
    "state": "hibernated",
    "locked": True,
    "window": WINDOW,
    "approval.deploys": True,
    "approval.variables": True,
    "wake_on_request": True,
}
"""Another value than that of `production` for each field."""
MEANWHILE: dict[str, Any] = {
    "name": ("Shop", "Main"),
    "type": ("staging", "development"),
    "order": (9, 8),
    "branch": ("release", "main"),
    "replicas": (3, 5),
    "window": (WINDOW, {**WINDOW, "to": "17:00"}),
}
"""The desired value of each field, and the value that another change sets first. For booleans, both are the same."""


async def test_an_environment_is_created_with_all_fields(configured: ChangedProject) -> None:
    said = {**OTHERWISE, "variables.A": configured.secret("one"), "approval.variables": False}
    assert await configured.plan_and_apply(STAGING, said) == Publications()
    assert await configured.fields(STAGING) == said
    # The step creates no key, because it could show the key to no person.
    assert await configured.managed.count(IngestKey) == 0
    environment = await configured.environment("staging")
    settings = {name: value for name, value in said.items() if name not in ("locked", "variables.A")}
    assert await configured.audited() == [
        ("environment.create", {"project": configured.project.public_id, "slug": "staging", **settings}),
        ("variables.update", {"names": ["A"], "removed": []}),
        ("environment.lock", {"reason": "Locked by the configuration."}),
    ]
    (_, subject, person, source, _), *_ = await configured.managed.read_audit_log()
    assert (subject, person, source) == (
        f"environment {environment.public_id}",
        "deployer@acme.example",
        SOURCE,
    )


async def test_omitted_fields_of_a_new_environment_have_their_defaults(configured: ChangedProject) -> None:
    await configured.plan_and_apply(("environments", "qa-2"), {"type": "development"})
    assert await configured.fields(("environments", "qa-2")) == {
        **FIELDS["environment"],
        "name": "Qa-2",
        "type": "development",
        "order": 1,
    }


async def test_a_gate_reaches_the_previews_with_copies_of_its_variables(configured: ChangedProject) -> None:
    managed = configured.managed
    await managed.set_variables("SECRET=1")
    (preview, _), _ = await managed.open_preview("feature", "production")
    await configured.plan_and_apply(PRODUCTION, {"approval.deploys": True})
    assert (await configured.environment(preview.slug)).deploys_need_approval


async def test_creating_an_environment_again_changes_nothing(configured: ChangedProject) -> None:
    action = await configured.plan_one(STAGING, {**OTHERWISE, "variables.A": configured.secret("one")})
    await configured.apply_step(action)
    assert await configured.repeated(action) == Publications()


async def test_an_existing_different_environment_is_not_changed(configured: ChangedProject) -> None:
    action = await configured.plan_one(STAGING, {"type": "staging", "branch": "main", "replicas": 2})
    await configured.managed.add_environment()
    assert await configured.refused(action) == (
        "environments.staging exists already, with another branch, replicas; make a new review."
    )


async def test_an_existing_equal_environment_is_accepted(configured: ChangedProject) -> None:
    action = await configured.plan_one(STAGING, {"type": "staging", "branch": "main"})
    await configured.managed.add_environment("Any", slug="staging", branch="main")
    await configured.repeated(action)


@pytest.mark.both_databases
async def test_creating_waits_for_a_concurrent_creation_of_the_environment(
    configured: ChangedProject,
) -> None:
    action = await configured.plan_one(STAGING, {"type": "staging", "branch": "main"})
    async with configured.while_uncommitted(action) as session:
        await create_environment(session, configured.project, "Staging", "staging", "staging", NOW)


async def test_a_preview_with_the_same_slug_conflicts(configured: ChangedProject) -> None:
    action = await configured.plan_one(STAGING, {"type": "staging"})
    async with configured.managed.engines.sessions() as session, session.begin():
        await create_environment(session, configured.project, "Preview", "staging", PREVIEW, NOW)
    assert (await configured.refused(action)).startswith(
        "environments.staging cannot be created: another resource of that"
    )


@pytest.mark.parametrize("field", OTHERWISE)
async def test_each_field_is_changed_and_changed_back(configured: ChangedProject, field: str) -> None:
    present = await configured.fields(PRODUCTION)
    assert present is not None
    for wanted in (OTHERWISE[field], present[field]):
        action = await configured.plan_one(PRODUCTION, {field: wanted})
        assert await configured.apply_step(action) == Publications()
        assert await configured.fields(PRODUCTION) == {**present, field: wanted}
        await configured.repeated(action)
    assert len(await configured.audited()) == 2


async def test_all_fields_are_changed_in_one_step(configured: ChangedProject) -> None:
    await configured.plan_and_apply(PRODUCTION, OTHERWISE)
    assert await configured.fields(PRODUCTION) == OTHERWISE
    own = ("replicas", "state", "locked")
    present = {**FIELDS["environment"], "name": "Production", "type": "production", "order": 3}
    assert await configured.audited() == [
        (
            "environment.set",
            {
                field: {"from": present[field], "to": wanted}
                for field, wanted in OTHERWISE.items()
                if field not in own
            },
        ),
        ("environment.scale", {"from": 1, "to": 3}),
        ("environment.state", {"from": "running", "to": "hibernated"}),
        ("environment.lock", {"reason": "Locked by the configuration."}),
    ]


@pytest.mark.parametrize("field", MEANWHILE)
async def test_a_step_with_a_field_changed_since_the_plan_changes_nothing(
    configured: ChangedProject, field: str
) -> None:
    wanted, others = MEANWHILE[field]
    action = await configured.plan_one(PRODUCTION, {field: wanted, "wake_on_request": True})
    await configured.plan_and_apply(PRODUCTION, {field: others})
    assert await configured.refused(action) == (
        f"environments.production was changed meanwhile: {field}; make a new review."
    )


async def test_the_error_names_up_to_five_changed_fields(configured: ChangedProject) -> None:
    action = await configured.plan_one(
        PRODUCTION, {field: wanted for field, (wanted, _) in MEANWHILE.items()}
    )
    await configured.plan_and_apply(PRODUCTION, {field: others for field, (_, others) in MEANWHILE.items()})
    assert await configured.refused(action) == (
        "environments.production was changed meanwhile: name, type, order, branch, replicas and 1 more; make a new "
        "review."
    )


async def test_fields_that_are_as_desired_are_not_changed(configured: ChangedProject) -> None:
    action = await configured.plan_one(PRODUCTION, {"replicas": 3, "branch": "main", "locked": True})
    await configured.managed.scale(3)
    await configured.managed.lock("sale")
    await configured.apply_step(action)
    assert await configured.audited() == [("environment.set", {"branch": {"from": None, "to": "main"}})]
    async with configured.managed.engines.sessions() as session:
        assert (await session.execute(select(EnvironmentLock.reason))).scalar_one() == "sale"


@pytest.mark.both_databases
async def test_a_change_waits_for_a_concurrent_scaling(configured: ChangedProject) -> None:
    action = await configured.plan_one(PRODUCTION, {"replicas": 3})
    async with configured.while_uncommitted(action) as session:
        target = await configured.managed.read_target(session)
        await scale_environment(session, target, 5, configured.others(), NOW)
    assert (await configured.environment()).desired_replicas == 5


@pytest.mark.both_databases
async def test_a_concurrent_scaling_by_a_person_is_not_lost(configured: ChangedProject) -> None:
    for _ in range(5):
        await configured.managed.change_environment(desired_replicas=1)
        action = await configured.plan_one(PRODUCTION, {"replicas": 3})
        result, _ = await asyncio.gather(
            configured.apply_step(action),
            configured.managed.scale(5),
            return_exceptions=True,
        )
        assert isinstance(result, Publications | StepFailed), result
        # The change was either first, so that the operator saw it, or refused.
        assert (await configured.environment()).desired_replicas == 5


async def test_an_environment_removed_since_the_plan_is_not_changed(configured: ChangedProject) -> None:
    action = await configured.plan_one(PRODUCTION, {"replicas": 3})
    await configured.managed.remove_environment()
    gone = "environments.production was removed meanwhile; make a new review."
    assert await configured.refused(action) == gone
    async with configured.managed.engines.sessions() as session, session.begin():
        await create_environment(session, configured.project, "Preview", "production", PREVIEW, NOW)
    assert await configured.refused(action) == gone


@pytest.mark.both_databases
async def test_an_environment_being_removed_is_not_changed(configured: ChangedProject) -> None:
    action = await configured.plan_one(PRODUCTION, {"replicas": 3})
    async with configured.while_uncommitted(action) as session:
        await session.delete(await session.get_one(Environment, configured.managed.environment.id))


async def test_the_audit_log_has_no_binding_values(configured: ChangedProject) -> None:
    said = {"name": "tops3cret", "state": "hibernated", "branch": "release-tops3cret"}
    await configured.plan_and_apply(PRODUCTION, said, bound=said)
    await configured.plan_and_apply(STAGING, {"type": "staging", **said}, bound=said)
    made = await configured.fields(STAGING)
    assert made is not None
    assert {field: made[field] for field in said} == said
    text = await configured.audit_text()
    assert "tops3cret" not in text and "hibernated" not in text
    masked = {field: {"from": MASK, "to": MASK, "sensitive": True} for field in said}
    masked["branch"] = {"from": None, "to": MASK, "sensitive": True}  # type: ignore[dict-item]
    assert await configured.audited() == [
        ("environment.set", masked),
        (
            "environment.create",
            {
                "project": configured.project.public_id,
                "slug": "staging",
                "type": "staging",
                **dict.fromkeys(said, MASK),
            },
        ),
    ]


async def test_errors_have_no_binding_values(configured: ChangedProject) -> None:
    action = await configured.plan_one(PRODUCTION, {"branch": "tops3cret"}, bound=["branch"])
    await configured.plan_and_apply(PRODUCTION, {"branch": "anoth3r"}, bound=["branch"])
    assert await configured.refused(action) == (
        "environments.production was changed meanwhile: branch; make a new review."
    )


async def test_environments_of_other_projects_are_not_touched(configured: ChangedProject) -> None:
    async with configured.managed.engines.sessions() as session, session.begin():
        blog = await create_project(session, configured.managed.account, "Blog", "blog", NOW)
        other = await create_environment(session, blog, "Staging", "staging", "staging", NOW)
    action = Action("update", STAGING, [Change("replicas", 1, 3)])
    assert "was removed meanwhile" in await configured.refused(action)
    removed = Action("delete", STAGING, [])
    await configured.repeated(removed)
    await configured.plan_and_apply(STAGING, {"type": "staging", "replicas": 2})
    async with configured.managed.engines.sessions() as session:
        kept = await session.get_one(Environment, other.id)
    assert (kept.slug, kept.desired_replicas) == ("staging", 1)

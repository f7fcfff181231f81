"""Sites and their goals that a configuration creates, changes and removes, on both databases."""

from typing import Any

import pytest
from sqlalchemy import select, update

from control_domain.configurations.resources import MASK
from control_domain.configurations.steps.step_context import Publications
from control_domain.projects.operations import create_project
from control_domain.sites.operations import add_goal, create_site, list_domains
from control_domain.tables.sites import Goal, Site
from pipeline_contracts.credentials import digest_credential
from tests.support.changed_project import ChangedProject
from tests.support.managed_project import NOW

WWW = ("sites", "www")
DOMAINS = ["https://shop.example", "https://*.shop.example"]
SIGN_UP = 'goals["Sign up"]'
SAID: dict[str, Any] = {
    "domains": DOMAINS,
    "timezone": "Europe/Oslo",
    "goals.Purchase": {"event": "purchase"},
    SIGN_UP: {"path": "/welcome"},
}


async def _site(configured: ChangedProject) -> Site:
    async with configured.managed.engines.sessions() as session:
        return (
            await session.execute(select(Site).where(Site.project_id == configured.project.id))
        ).scalar_one()


async def _goals(configured: ChangedProject) -> dict[str, tuple[int, str | None, str | None]]:
    """Return the number and the target of each goal by name."""
    async with configured.managed.engines.sessions() as session:
        goals = (await session.execute(select(Goal))).scalars()
        return {goal.name: (goal.id, goal.event, goal.path) for goal in goals}


async def test_a_site_is_created_with_its_goals(configured: ChangedProject) -> None:
    action = await configured.plan_one(WWW, SAID)
    result = await configured.apply_step(action)
    site = await _site(configured)
    assert result == Publications(sites=[site.id])
    assert await configured.fields(WWW) == SAID
    assert {name: goal[1:] for name, goal in (await _goals(configured)).items()} == {
        "Purchase": ("purchase", None),
        "Sign up": (None, "/welcome"),
    }
    details = {"project": configured.project.public_id, "name": "www", **SAID}
    assert await configured.audited() == [("site.create", details)]
    # The process that created the site may have ended before it informed the edges.
    assert await configured.repeated(action) == result


async def test_omitted_fields_of_a_new_site_have_their_defaults(configured: ChangedProject) -> None:
    await configured.plan_and_apply(WWW, {"domains": DOMAINS})
    assert await configured.fields(WWW) == {"domains": DOMAINS, "timezone": "UTC"}


async def test_an_existing_different_site_is_not_changed(configured: ChangedProject) -> None:
    action = await configured.plan_one(WWW, SAID)
    await configured.managed.objects.add_site("www", *DOMAINS)
    assert await configured.refused(action) == (
        f"sites.www exists already, with another timezone, goals.Purchase, {SIGN_UP}; make a new review."
    )


@pytest.mark.both_databases
async def test_creating_waits_for_a_concurrent_creation_of_the_site(configured: ChangedProject) -> None:
    action = await configured.plan_one(WWW, SAID)
    async with configured.while_uncommitted(action) as session:
        await create_site(session, configured.project.id, "www", "UTC", DOMAINS, NOW)


async def test_only_changed_domains_are_published(configured: ChangedProject) -> None:
    await configured.plan_and_apply(WWW, SAID)
    site = await _site(configured)
    action = await configured.plan_one(WWW, {"domains": ["https://www.example"], "timezone": "UTC"})
    assert await configured.apply_step(action) == Publications(sites=[site.id])
    assert await configured.repeated(action) == Publications(sites=[site.id])
    action = await configured.plan_one(WWW, {"timezone": "Europe/Oslo", "goals.Purchase": {"event": "paid"}})
    assert await configured.apply_step(action) == Publications()
    await configured.repeated(action)
    assert await configured.fields(WWW) == {
        **SAID,
        "domains": ["https://www.example"],
        "goals.Purchase": {"event": "paid"},
    }
    after = await _site(configured)
    assert (after.id, after.public_id) == (site.id, site.public_id)


async def test_goals_are_added_retargeted_and_removed(configured: ChangedProject) -> None:
    await configured.plan_and_apply(WWW, SAID)
    before = await _goals(configured)
    said = {"goals.Purchase": {"path": "/paid"}, "goals.Contact": {"event": "contact"}}
    (action,) = await configured.plan({WWW: said}, deleted=[(*WWW, "goals", "Sign up")])
    assert await configured.apply_step(action) == Publications()
    after = await _goals(configured)
    assert after == {
        "Purchase": (before["Purchase"][0], None, "/paid"),
        "Contact": (after["Contact"][0], "contact", None),
    }
    await configured.repeated(action)
    assert (await configured.audited())[-1] == (
        "site.set",
        {
            "goals.Contact": {"from": None, "to": {"event": "contact"}},
            "goals.Purchase": {"from": {"event": "purchase"}, "to": {"path": "/paid"}},
            SIGN_UP: {"from": {"path": "/welcome"}, "to": None},
        },
    )


MEANWHILE: dict[str, dict[str, Any]] = {
    "domains": {"domains": ["https://shop.example"]},
    "timezone": {"timezone": "Asia/Tokyo"},
    "goals.Purchase": {"goals.Purchase": {"path": "/paid"}},
    "goals.Contact": {"goals.Contact": {"path": "/contact"}},
}


@pytest.mark.parametrize("field", MEANWHILE)
async def test_a_site_changed_since_the_plan_is_not_changed(configured: ChangedProject, field: str) -> None:
    await configured.plan_and_apply(WWW, SAID)
    said = {
        "domains": ["https://www.example"],
        "timezone": "UTC",
        "goals.Purchase": {"event": "paid"},
        "goals.Contact": {"event": "contact"},
    }
    action, removal = await configured.plan_one(WWW, said), await configured.plan_one(WWW)
    await configured.plan_and_apply(WWW, MEANWHILE[field])
    changed = f"sites.www was changed meanwhile: {field}; make a new review."
    assert await configured.refused(action) == changed
    assert await configured.refused(removal) == changed


@pytest.mark.both_databases
async def test_a_change_waits_for_a_concurrent_removal_of_a_goal(
    configured: ChangedProject,
) -> None:
    await configured.plan_and_apply(WWW, SAID)
    (action,) = await configured.plan({WWW: {"goals.Purchase": {"event": "paid"}}})
    async with configured.while_uncommitted(action) as session:
        goal = (await session.execute(select(Goal).where(Goal.name == "Purchase"))).scalar_one()
        await session.delete(goal)


@pytest.mark.both_databases
async def test_a_change_waits_for_a_concurrent_addition_of_a_goal(
    configured: ChangedProject,
) -> None:
    await configured.plan_and_apply(WWW, {"domains": DOMAINS})
    (action,) = await configured.plan({WWW: {"goals.Purchase": {"event": "paid"}}})
    async with configured.while_uncommitted(action) as session:
        await add_goal(session, await _site(configured), "Purchase", "bought", None, NOW)


@pytest.mark.both_databases
async def test_a_change_waits_for_a_concurrent_change_of_domains(configured: ChangedProject) -> None:
    await configured.plan_and_apply(WWW, SAID)
    action = await configured.plan_one(WWW, {"domains": ["https://www.example"]})
    async with configured.while_uncommitted(action) as session:
        await session.execute(update(Site).values(domains='["https://other.example"]'))


async def test_a_site_removed_since_the_plan_is_not_changed(configured: ChangedProject) -> None:
    await configured.plan_and_apply(WWW, SAID)
    action = await configured.plan_one(WWW, {"timezone": "UTC"})
    await configured.plan_and_apply(WWW)
    assert await configured.refused(action) == "sites.www was removed meanwhile; make a new review."


async def test_a_site_is_removed_with_its_goals(configured: ChangedProject) -> None:
    await configured.plan_and_apply(WWW, SAID)
    site = await _site(configured)
    action = await configured.plan_one(WWW)
    result = await configured.apply_step(action)
    assert (list(result.revoke), list(result.sites)) == ([digest_credential(site.public_id)], [])
    assert await configured.managed.count(Site) == await configured.managed.count(Goal) == 0
    name, details = (await configured.audited())[-1]
    assert (name, details["name"]) == ("site.remove", "www")
    assert await configured.repeated(action) == Publications()


async def test_sites_of_other_projects_are_not_touched(configured: ChangedProject) -> None:
    async with configured.managed.engines.sessions() as session, session.begin():
        await create_project(session, configured.managed.account, "Blog", "blog", NOW)
    site = await configured.managed.objects.add_site("www", *DOMAINS, project="blog")
    action = await configured.plan_one(WWW, SAID)
    await configured.apply_step(action)
    await configured.plan_and_apply(WWW, {"timezone": "Asia/Tokyo"})
    await configured.plan_and_apply(WWW)
    async with configured.managed.engines.sessions() as session:
        (left,) = (await session.execute(select(Site))).scalars()
    assert (left.id, left.name, left.timezone, list_domains(left)) == (site.id, "www", "UTC", DOMAINS)


async def test_the_audit_log_of_a_change_has_no_binding_values(
    configured: ChangedProject,
) -> None:
    said = {"domains": ["https://tops3cret.example"], "goals.Purchase": {"event": "tops3cret"}}
    await configured.plan_and_apply(WWW, {**said, "timezone": "UTC"}, bound=said)
    again = {"domains": ["https://tops3cret.example", *DOMAINS], "goals.Purchase": {"path": "/tops3cret"}}
    await configured.plan_and_apply(WWW, again, bound=again)
    assert "tops3cret" not in await configured.audit_text()
    masked = {"from": MASK, "to": MASK, "sensitive": True}
    assert (await configured.audited())[-1] == ("site.set", dict.fromkeys(again, masked))

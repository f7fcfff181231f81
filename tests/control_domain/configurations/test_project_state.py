"""The state of a project: its fields, the values that it omits, and the changes of its fingerprint."""

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_api.request_session import end_transaction
from control_domain.audit import Actor
from control_domain.configurations.addresses import PROJECT, Address
from control_domain.configurations.documents.read_document import read_configuration
from control_domain.configurations.documents.write_document import write_document
from control_domain.configurations.plan import make_plan
from control_domain.configurations.project_state import read_project_state
from control_domain.configurations.resources import ProjectState, Secret, Value
from control_domain.monitors.operations import (
    HeartbeatSettings,
    create_heartbeat,
    create_monitor_key,
    create_queue,
)
from control_domain.projects.find import DeployTarget
from control_domain.projects.operations import create_environment, create_ingest_key, create_project
from control_domain.sealing import CannotOpen, SealingKeys
from control_domain.sites.operations import add_goal, create_site
from control_domain.tables.configuration import ConfigurationRun, Review
from control_domain.tables.monitors import (
    Heartbeat,
    HeartbeatRun,
    HeartbeatState,
    Queue,
    QueueState,
    QueueWorker,
)
from control_domain.tables.projects import Environment, EnvironmentLock, Project
from control_domain.tables.sites import Goal, Site
from control_domain.tables.variables import VariableChange, VariableSet
from control_domain.variables.decisions import decide_variable_change
from control_domain.variables.operations import replace_variables
from pipeline_contracts.deploy_states import ChangeState
from pipeline_contracts.errors import NotFound
from pipeline_contracts.schedules import Schedule
from tests.support.databases import recorded_statements
from tests.support.deploy_platform import Platform, Tenant, add_succeeded
from tests.support.prepared_platform import platform, prepared
from tests.support.serve_control import VARIABLE_KEYS

__all__ = ["platform", "prepared"]

NOW = datetime.now(UTC)
PRODUCTION: Address = ("environments", "production")
STAGING: Address = ("environments", "staging")
SHOP: Address = ("sites", "Shop")
ACTOR = Actor("test")
Act = Callable[[AsyncSession], Awaitable[Any]]
SETTINGS: dict[str, Value] = {
    "branch": None,
    "replicas": 1,
    "state": "running",
    "locked": False,
    "window": None,
    "approval.deploys": False,
    "approval.variables": False,
    "wake_on_request": False,
}


async def _read(
    platform: Platform, project: Project | None = None, keys: SealingKeys = VARIABLE_KEYS
) -> ProjectState:
    """Return the state of acme's `shop`, or of the given project."""
    number = (project or platform.acme.projects["shop"]).id
    async with platform.sessions() as session:
        return await read_project_state(session, keys, await session.get_one(Project, number))


async def _do(platform: Platform, act: Act) -> Any:
    async with platform.sessions() as session, session.begin():
        return await act(session)


def _fields(state: ProjectState, address: Address) -> dict[str, Value]:
    return dict(state.resources[address].fields)


def _secret(platform: Platform, value: str) -> Secret:
    return Secret(VARIABLE_KEYS.digest(value, platform.acme.projects["shop"].public_id))


async def _replace(session: AsyncSession, target: DeployTarget, **values: str) -> int | None:
    """Set the environment's variables; return the waiting change, if there is one."""
    held = target._replace(environment=await session.get_one(Environment, target.environment.id))
    return await replace_variables(session, VARIABLE_KEYS, held, values, ACTOR, NOW)


def _setting(tenant: Tenant, name: str, **values: str) -> Act:
    return lambda session: _replace(session, tenant.places[name], **values)


async def test_a_project_with_default_settings(platform: Platform) -> None:
    state = await _read(platform)
    assert {address: present.fields for address, present in state.resources.items()} == {
        PROJECT: {"name": "Shop"},
        **{
            ("environments", type_): {"name": type_.title(), "type": type_, "order": order, **SETTINGS}
            for order, type_ in enumerate(("development", "staging", "production"), 1)
        },
        SHOP: {"domains": ["https://shop.example"], "timezone": "Europe/Oslo"},
    }
    assert all(address == present.address for address, present in state.resources.items())
    assert state.lineage == platform.acme.projects["shop"].public_id
    assert (state.awaiting_approval, state.previews) == (frozenset(), frozenset())


async def test_a_project_with_nothing_in_it(platform: Platform) -> None:
    acme = platform.acme
    made = await _do(platform, lambda session: create_project(session, acme.account, "New", "new", NOW))
    state = await _read(platform, made)
    assert {address: present.fields for address, present in state.resources.items()} == {
        PROJECT: {"name": "New"}
    }
    assert state.serial == 0


async def _set(session: AsyncSession, table: Any, number: int, **values: Any) -> None:
    await session.execute(update(table).where(table.id == number).values(**values))


async def _apply(session: AsyncSession, project: Project) -> int:
    """Add a finished configuration run; return its number."""
    review = Review(
        project_id=project.id, fingerprint="", plan="{}", created_at=NOW, expires_at=NOW, applied_at=NOW
    )
    session.add(review)
    await session.flush()
    run = ConfigurationRun(
        project_id=project.id, review_id=review.id, status="succeeded", source="test", created_at=NOW
    )
    session.add(run)
    await session.flush()
    return run.id


@pytest.mark.both_databases
async def test_each_field_is_read_and_part_of_the_fingerprint(platform: Platform) -> None:
    acme = platform.acme
    shop, production = acme.projects["shop"], acme.environment("shop/production")
    assert acme.site is not None
    seen = {(await _read(platform)).fingerprint()}

    async def change(address: Address, field: str, value: Value, table: Any, number: int, **to: Any) -> None:
        await _do(platform, lambda session: _set(session, table, number, **to))
        await expect(address, **{field: value})

    async def expect(address: Address, **fields: Value) -> None:
        state = await _read(platform)
        assert fields.items() <= _fields(state, address).items()
        assert state.fingerprint() not in seen
        seen.add(state.fingerprint())

    await change(PROJECT, "name", "Store", Project, shop.id, name="Store")
    window = {"days": ["mon", "fri"], "from": "09:00", "to": "16:30", "timezone": "Europe/Oslo"}
    # As an earlier version stored it: in another order.
    stored = json.dumps({**window, "days": ["fri", "mon"]})
    changes: dict[str, tuple[Value, dict[str, Any]]] = {
        "name": ("Live", {"name": "Live"}),
        "type": ("staging", {"type": "staging"}),
        "order": (7, {"position": 7}),
        "branch": ("release/1", {"branch": "release/1"}),
        "replicas": (20, {"desired_replicas": 20}),
        "state": ("hibernated", {"state": "hibernated"}),
        "window": (window, {"deploy_window": stored}),
        "approval.deploys": (True, {"deploys_need_approval": True}),
        "approval.variables": (True, {"variables_need_approval": True}),
        "wake_on_request": (True, {"wake_on_request": True}),
    }
    for field, (value, columns) in changes.items():
        await change(PRODUCTION, field, value, Environment, production.id, **columns)
    locked = insert(EnvironmentLock).values(environment_id=production.id, reason="x", locked_at=NOW)
    await _do(platform, lambda session: session.execute(locked))
    await expect(PRODUCTION, locked=True)

    nightly = (*PRODUCTION, "heartbeats", "nightly: ${x}")
    wanted = HeartbeatSettings(
        "nightly: ${x}", Schedule(cron="0 3 * * *", timezone="Europe/Oslo"), 90, 7200, 3
    )
    made = await _do(platform, lambda session: create_heartbeat(session, production, wanted, NOW))
    await expect(
        nightly, cron="0 3 * * *", period=None, timezone="Europe/Oslo", grace="90s", max_runtime="2h",
        failures_before_down=3, paused=False,
    )  # fmt: skip
    changes = {
        "cron": ("5 3 * * *", {"cron": "5 3 * * *"}),
        "period": ("1d", {"cron": None, "period_seconds": 86_400}),
        "timezone": ("UTC", {"timezone": "UTC"}),
        "grace": ("0s", {"grace_seconds": 0}),
        "max_runtime": ("90m", {"max_runtime_seconds": 5400}),
        "failures_before_down": (1, {"failures_before_down": 1}),
        "paused": (True, {"paused": True}),
    }
    for field, (value, columns) in changes.items():
        await change(nightly, field, value, Heartbeat, made.id, **columns)
    assert _fields(await _read(platform), nightly)["cron"] is None

    await _do(platform, lambda session: create_queue(session, production, "default", NOW))
    await expect((*PRODUCTION, "queues", "default"))

    domains = ["https://b.example", "https://a.example"]
    await change(SHOP, "domains", domains, Site, acme.site.id, domains=json.dumps(domains))
    await change(SHOP, "timezone", "UTC", Site, acme.site.id, timezone="UTC")
    for name, event_name, path in (("Signup", None, "/welcome"), ("Sign up", "signup", None)):
        await _do(platform, lambda session: add_goal(session, acme.site, name, event_name, path, NOW))  # noqa: B023
    await expect(SHOP, **{"goals.Signup": {"path": "/welcome"}, 'goals["Sign up"]': {"event": "signup"}})
    await _do(
        platform,
        lambda session: session.execute(update(Goal).values(path="/in").where(Goal.name == "Signup")),
    )
    await expect(SHOP, **{"goals.Signup": {"path": "/in"}})

    number = await _do(platform, lambda session: _apply(session, shop))
    await expect(PROJECT)
    assert (await _read(platform)).serial == number


async def test_fields_have_the_form_of_document_fields(platform: Platform) -> None:
    acme = platform.acme
    production = acme.environment("shop/production")
    window = {"days": ["sun", "mon"], "from": "22:00", "to": "02:00", "timezone": "UTC"}
    settings = HeartbeatSettings("nightly: 0", Schedule(period_seconds=5400), 61, 3661, 2)

    async def fill(session: AsyncSession) -> None:
        await _replace(session, acme.places["shop/production"], A="1", B="")
        await create_heartbeat(session, production, settings, NOW)
        await create_queue(session, production, "0x1f", NOW)
        assert acme.site is not None
        await add_goal(session, acme.site, "${x}", None, "/$${x}", NOW)

    await _do(platform, fill)
    await platform.change(
        "shop/production", deploy_window=json.dumps(window), branch="a#b", wake_on_request=True
    )
    state = await _read(platform)
    text = write_document(state)
    plan = make_plan(read_configuration(text, {}, lambda value: _secret(platform, value).digest), state)
    assert (plan.actions, plan.unmanaged) == ([], [])


@pytest.mark.both_databases
async def test_the_newest_version_of_variables_is_read(platform: Platform) -> None:
    acme = platform.acme
    for value in ("1", "2", "3"):
        await _do(platform, _setting(acme, "shop/staging", A=value, **{"GONE" if value < "3" else "B": ""}))
    before = await _read(platform)
    for value in ("3", "4"):
        await _do(platform, _setting(acme, "shop/production", A=value))
    state = await _read(platform)
    three, four, empty = (_secret(platform, value) for value in ("3", "4", ""))
    assert _fields(state, STAGING).items() >= {"variables.A": three, "variables.B": empty}.items()
    assert "variables.GONE" not in _fields(state, STAGING)
    assert _fields(state, PRODUCTION)["variables.A"] == four
    secrets = [one for present in state.resources.values() for one in present.fields.values()]
    assert [one.value for one in secrets if isinstance(one, Secret)] == [None] * 3
    assert before.fingerprint() != state.fingerprint()
    # The newest version has the highest number, not the latest time of its row.
    first = (VariableSet.environment_id == acme.environment("shop/staging").id) & (VariableSet.version == 1)
    await _do(platform, lambda session: session.execute(update(VariableSet).where(first).values(version=9)))
    assert _fields(await _read(platform), STAGING)["variables.A"] == _secret(platform, "1")


async def test_setting_the_same_variables_again_is_no_change(platform: Platform) -> None:
    acme = platform.acme
    await _do(platform, _setting(acme, "shop/production", A="4"))
    state = await _read(platform)
    await _do(platform, _setting(acme, "shop/production", A="4"))
    assert (await _read(platform)).fingerprint() == state.fingerprint()


async def test_variables_awaiting_approval_replace_the_current_ones(platform: Platform) -> None:
    acme = platform.acme
    maintainer = acme.people["maintainer"]
    await _do(platform, _setting(acme, "shop/production", A="old"))
    old = await _read(platform)
    await platform.change("shop/production", variables_need_approval=True)
    number = await _do(platform, _setting(acme, "shop/production", A="new", B=""))
    waiting = await _read(platform)
    assert waiting.awaiting_approval == {PRODUCTION}
    assert _fields(waiting, PRODUCTION)["variables.A"] == _secret(platform, "new")
    assert _fields(waiting, PRODUCTION)["variables.B"] == _secret(platform, "")

    async def decide(number: int, to: ChangeState) -> ProjectState:
        async with platform.sessions() as session, session.begin():
            change = await session.get_one(VariableChange, number)
            environment = await session.get_one(Environment, change.environment_id)
            target = DeployTarget(environment, acme.projects["shop"])
            await decide_variable_change(session, change, target, to, maintainer, ACTOR, NOW, "no")
        return await _read(platform)

    approved = await decide(number, ChangeState.APPLIED)
    assert approved.awaiting_approval == frozenset()
    assert approved.resources == waiting.resources
    assert approved.fingerprint() != waiting.fingerprint()
    number = await _do(platform, _setting(acme, "shop/production", A="newest"))
    rejected = await decide(number, ChangeState.REJECTED)
    assert rejected == approved
    assert old.resources[PRODUCTION] not in (approved.resources[PRODUCTION], waiting.resources[PRODUCTION])


async def test_deployments_and_other_projects_are_not_part_of_the_state(platform: Platform) -> None:
    acme, other = platform.acme, platform.other
    production = acme.environment("shop/production")
    made = await _do(
        platform,
        lambda session: create_heartbeat(
            session, production, HeartbeatSettings("nightly", Schedule(3600)), NOW
        ),
    )
    queue = await _do(platform, lambda session: create_queue(session, production, "default", NOW))
    before = await _read(platform)

    async def signal(session: AsyncSession) -> None:
        states = update(HeartbeatState).where(HeartbeatState.heartbeat_id == made.id)
        await session.execute(states.values(state="down", since_ms=1, version=7, failures_in_row=2))
        session.add(HeartbeatRun(heartbeat_id=made.id, run_id="1", first_ms=1))
        session.add(QueueState(queue_id=queue.id, snapshot_id="1", observed_us=1, received_ms=1, pending=7))
        session.add(QueueWorker(queue_id=queue.id, worker_id="1", sequence=1, status="idle", received_ms=1))

    async def fill_others(session: AsyncSession) -> None:
        for target in (acme.places["blog/production"], other.places["shop/production"]):
            environment, project = target
            await _replace(session, target, A="1")
            await create_heartbeat(session, environment, HeartbeatSettings("n", Schedule(60)), NOW)
            await create_queue(session, environment, "q", NOW)
            await add_goal(
                session, await create_site(session, project.id, "S", "UTC", [], NOW), "G", "g", None, NOW
            )
            await _apply(session, project)
            session.add(EnvironmentLock(environment_id=environment.id, reason="x", locked_at=NOW))
            await _set(session, Project, project.id, name="Another")
            await _set(session, Environment, environment.id, variables_need_approval=True)
            await _replace(session, target, A="2")

    acts: dict[str, Act] = {
        "a deployment": lambda session: add_succeeded(session, acme, "shop/production", NOW),
        "an ingest key": lambda session: create_ingest_key(session, production, NOW),
        "a monitor's key": lambda session: create_monitor_key(session, NOW, queue_id=queue.id),
        "signals": signal,
        "other projects": fill_others,
    }
    for called, act in acts.items():
        contents = await platform.contents()
        await _do(platform, act)
        assert await platform.contents() != contents, called
        assert await _read(platform) == before, called
    theirs = await _read(platform, other.projects["shop"])
    assert theirs.awaiting_approval == {PRODUCTION}
    assert theirs.resources.keys() - before.resources.keys() == {
        (*PRODUCTION, "heartbeats", "n"),
        (*PRODUCTION, "queues", "q"),
        ("sites", "S"),
    }
    assert theirs.serial > before.serial


async def test_previews_are_known_by_their_slugs_alone(platform: Platform) -> None:
    acme = platform.acme
    before = await _read(platform)

    async def fill(session: AsyncSession) -> None:
        preview = await create_environment(session, acme.projects["shop"], "Preview", "pr-7", "preview", NOW)
        target = acme.places["shop/production"]._replace(environment=preview)
        await create_heartbeat(session, preview, HeartbeatSettings("nightly", Schedule(60)), NOW)
        await create_queue(session, preview, "default", NOW)
        await _replace(session, target, A="1")
        preview.variables_need_approval = True
        await _replace(session, target, A="2")

    await _do(platform, fill)
    after = await _read(platform)
    assert after.previews == {"pr-7"}
    assert (after.resources, after.awaiting_approval) == (before.resources, frozenset())
    # Previews come and go, and a plan stays valid.
    assert after.fingerprint() == before.fingerprint()


async def test_variables_under_another_key_are_not_read(platform: Platform) -> None:
    await _do(platform, _setting(platform.acme, "shop/production", A="1"))
    with pytest.raises(CannotOpen):
        await _read(platform, keys=SealingKeys.read("another key that opens nothing here"))


@pytest.mark.both_databases
async def test_a_removed_project_is_not_found(platform: Platform) -> None:
    now_gone = await _do(
        platform, lambda session: create_project(session, platform.acme.account, "Gone", "gone", NOW)
    )
    await _do(platform, lambda session: session.execute(delete(Project).where(Project.id == now_gone.id)))
    async with platform.sessions() as session:
        with pytest.raises(NotFound):
            await read_project_state(session, VARIABLE_KEYS, now_gone)


async def test_rows_that_the_session_knows_are_refreshed(platform: Platform) -> None:
    shop, production = platform.acme.projects["shop"], platform.acme.environment("shop/production")
    await _do(platform, lambda session: create_queue(session, production, "default", NOW))
    async with platform.sessions() as session:
        before = await read_project_state(session, VARIABLE_KEYS, shop)
        # A session forgets rows without references, so the test keeps them.
        held = [(await session.scalars(select(table))).all() for table in (Project, Environment)]
        assert all(held)
        await end_transaction(session)
        await _do(platform, lambda other: _set(other, Project, shop.id, name="Store"))
        await platform.change("shop/production", desired_replicas=9)
        await _do(platform, lambda other: other.execute(delete(Queue)))
        after = await read_project_state(session, VARIABLE_KEYS, shop)
    assert _fields(before, PROJECT) == {"name": "Shop"}
    assert _fields(after, PROJECT) == {"name": "Store"}
    assert _fields(after, PRODUCTION)["replicas"] == 9
    assert before.resources.keys() - after.resources.keys() == {(*PRODUCTION, "queues", "default")}


async def test_the_number_of_queries_does_not_depend_on_the_size(platform: Platform) -> None:
    acme = platform.acme
    shop = acme.projects["shop"]

    async def count() -> tuple[int, int]:
        async with platform.sessions() as session:
            with recorded_statements(platform.engine) as statements:
                state = await read_project_state(session, VARIABLE_KEYS, shop)
        return len(statements), len(state.resources)

    async def fill(session: AsyncSession) -> None:
        for number in range(30):
            environment = await create_environment(session, shop, f"E{number}", f"e-{number}", "staging", NOW)
            environment.variables_need_approval = number % 2 == 0
            target = acme.places["shop/production"]._replace(environment=environment)
            for value in ("1", "2"):
                await _replace(session, target, A=value)
            await create_heartbeat(session, environment, HeartbeatSettings("n", Schedule(60)), NOW)
            await create_queue(session, environment, "q", NOW)
            site = await create_site(session, shop.id, f"S{number}", "UTC", [], NOW)
            await add_goal(session, site, "G", "g", None, NOW)

    assert await count() == (12, 5)
    await _do(platform, fill)
    assert await count() == (12, 5 + 30 * 4)

"""Rotation of the sealing key for variables while changes wait for approval."""

from datetime import UTC, datetime

import pytest

from control_domain.audit import Actor
from control_domain.key_rotation import Resealed, reseal
from control_domain.projects.find import DeployTarget
from control_domain.sealing import CannotOpen, Sealed, SealingKeys
from control_domain.tables.projects import Environment, Project
from control_domain.tables.variables import VariableChange
from control_domain.variables.decisions import decide_variable_change
from control_domain.variables.versions import find_newest_variables
from pipeline_contracts.deploy_states import ChangeState
from tests.support.deploy_platform import Platform, add_monitors, environment_path

NOW = datetime.now(UTC)
ACTOR = Actor("operator test")
_OLD, _NEW = "the old secret of the test; long enough", "the new secret of the test; long enough"
OLD, BOTH, NEW = (SealingKeys.read(text) for text in (_OLD, f"{_NEW},{_OLD}", _NEW))


async def _put(platform: Platform, keys: SealingKeys, name: str, text: str) -> int | None:
    """Set variables with these keys; return the ID of the change if it waits for approval."""
    platform.app.state.variable_keys = keys
    path = environment_path(platform.acme.places[name], "variables")
    answer = await platform.call("PUT", path, {"variables": text}, token=platform.acme.token("deployer"))
    assert answer.status in (200, 202)
    waiting: int | None = answer.data.get("change_id")
    return waiting


async def _read(platform: Platform, keys: SealingKeys, name: str) -> dict[str, str]:
    async with platform.sessions() as session:
        environment = await session.get_one(Environment, platform.acme.environment(name).id)
        present = await find_newest_variables(session, environment)
        assert present is not None
        return keys.open(Sealed(present.key_id, present.sealed), environment.public_id)


async def _reseal(platform: Platform, keys: SealingKeys, most: int) -> Resealed:
    async with platform.sessions() as session, session.begin():
        return await reseal(session, keys, most)


async def _approve(platform: Platform, name: str, change_id: int | None) -> None:
    async with platform.sessions() as session, session.begin():
        environment = await session.get_one(Environment, platform.acme.environment(name).id)
        target = DeployTarget(environment, await session.get_one(Project, environment.project_id))
        change = await session.get_one(VariableChange, change_id)
        person = platform.acme.people["maintainer"]
        await decide_variable_change(session, change, target, ChangeState.APPLIED, person, ACTOR, NOW)


async def test_new_key_suffices_after_resealing(platform: Platform) -> None:
    for n in range(3):
        await _put(platform, OLD, "shop/staging", f"A={n}")
    await platform.change("shop/production", variables_need_approval=True)
    waiting = await _put(platform, OLD, "shop/production", "B=1")
    # The new key is first: it seals, and the old key still opens.
    assert await _read(platform, BOTH, "shop/staging") == {"A": "2"}
    await _put(platform, BOTH, "shop/development", "C=1")
    with pytest.raises(CannotOpen):
        await _read(platform, NEW, "shop/staging")
    assert await _reseal(platform, BOTH, 2) == Resealed(done=3, left=1)
    assert await _reseal(platform, BOTH, 2) == Resealed(done=1, left=0)
    assert await _reseal(platform, BOTH, 2) == Resealed(done=0, left=0)
    assert await _read(platform, NEW, "shop/staging") == {"A": "2"}
    assert await _read(platform, NEW, "shop/development") == {"C": "1"}
    # The waiting change is approved with only the new key configured.
    await _approve(platform, "shop/production", waiting)
    assert await _read(platform, NEW, "shop/production") == {"B": "1"}
    with pytest.raises(CannotOpen):
        await _read(platform, OLD, "shop/production")


async def test_change_approved_during_resealing_is_resealed_by_the_next_run(platform: Platform) -> None:
    await platform.change("shop/production", variables_need_approval=True)
    waiting = await _put(platform, OLD, "shop/production", "B=1")
    await _approve(platform, "shop/production", waiting)
    assert await _read(platform, BOTH, "shop/production") == {"B": "1"}
    assert await _reseal(platform, BOTH, 500) == Resealed(done=1, left=0)
    assert await _read(platform, NEW, "shop/production") == {"B": "1"}


async def test_resealing_without_the_old_key_changes_nothing(platform: Platform) -> None:
    await _put(platform, OLD, "shop/staging", "A=1")
    before = await platform.contents()
    with pytest.raises(CannotOpen):
        await _reseal(platform, NEW, 500)
    assert await platform.contents() == before
    # Setting all variables again does not need the old key.
    await _put(platform, NEW, "shop/staging", "A=2")
    assert await _read(platform, NEW, "shop/staging") == {"A": "2"}


async def test_ping_keys_are_resealed(platform: Platform) -> None:
    """Only live keys are resealed, because revoked keys are never read again."""
    await add_monitors(platform)
    assert platform.acme.heartbeat is not None
    path = f"/v1/monitors/heartbeats/{platform.acme.heartbeat.id}/ping-keys"
    platform.app.state.variable_keys = OLD
    live, revoked = [(await platform.call("POST", path)).data for _ in range(2)]
    await platform.call("DELETE", f"{path}/{revoked['id']}")
    with pytest.raises(CannotOpen):
        await _reseal(platform, NEW, 500)
    assert await _reseal(platform, BOTH, 500) == Resealed(done=1, left=0)
    assert await _reseal(platform, BOTH, 500) == Resealed(done=0, left=0)
    platform.app.state.variable_keys = NEW
    assert [key["key"] for key in (await platform.call("GET", path)).data] == [None, live["key"]]

"""Variables during a rotation of the sealing key, on both databases."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from control_domain.audit import Actor
from control_domain.operators import rotate_key
from control_domain.operators.rotate_key import run_rotation_round
from control_domain.sealing import SealingKeys
from control_domain.tables.variables import VariableChange
from control_domain.variables.versions import find_newest_variables, open_variables
from pipeline_contracts.errors import Conflict
from tests.support.managed_project import NOW, ManagedProject

OLD, NEW = b"k" * 32, b"n" * 32
OPERATOR = Actor("operator kim")


async def _read_values(managed: ManagedProject) -> dict[str, str]:
    """Return the variables of the next release."""
    async with managed.engines.sessions() as session:
        newest = await find_newest_variables(session, managed.environment)
    return open_variables(managed.engines.sealing_keys, newest, managed.environment.public_id)


def _use_keys(managed: ManagedProject, *keys: bytes) -> None:
    managed.engines = replace(managed.engines, sealing_keys=SealingKeys(keys))


async def _rotate(managed: ManagedProject) -> Any:
    async with managed.engines.sessions() as session, session.begin():
        return await run_rotation_round(session, managed.engines.sealing_keys, OPERATOR, NOW)


async def test_keys_are_rotated_in_rounds(managed: ManagedProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotate_key, "_MAX_ROWS", 2)
    for number in range(5):
        await managed.set_variables(f"A={number}")
    await managed.change_settings(variables_need_approval=True)
    change = await managed.propose_variables("A=waits")
    _use_keys(managed, NEW, OLD)
    before = len(await managed.read_audit_log())
    rounds = [await _rotate(managed) for _ in range(4)]
    key_id = SealingKeys([NEW]).key_id
    assert rounds == [
        {"resealed": done, "left": left, "key_id": key_id} for done, left in ((3, 3), (2, 1), (1, 0), (0, 0))
    ]
    entries = await managed.read_audit_log()
    assert len(entries) == before + 3
    assert entries[0] == ("variables.reseal", f"key {key_id}", None, "operator kim", {"sets": 1})
    # The old key is no longer needed, not even for the waiting change.
    _use_keys(managed, NEW)
    assert await _read_values(managed) == {"A": "4"}
    await managed.decide_on_variables(change)
    assert await _read_values(managed) == {"A": "waits"}


async def test_a_missing_key_stops_the_rotation(managed: ManagedProject) -> None:
    await managed.set_variables("A=1")
    _use_keys(managed, NEW)
    with pytest.raises(Conflict, match=f"The secrets of {managed.environment.public_id} are sealed under"):
        await _rotate(managed)


@pytest.mark.both_databases
async def test_a_decision_during_the_rotation_loses_nothing(managed: ManagedProject) -> None:
    """The rotation does not restore the values of a decided change, and the new key alone opens the applied
    variables."""
    for number in range(8):
        await managed.change_environment(variables_need_approval=True)
        change = await managed.propose_variables(f"A={number}")
        keys = (NEW, OLD) if number % 2 else (OLD, NEW)
        _use_keys(managed, *keys)
        await asyncio.gather(managed.decide_on_variables(change), *(_rotate(managed) for _ in range(3)))
        while (await _rotate(managed))["left"]:
            pass
        _use_keys(managed, keys[0])
        assert await _read_values(managed) == {"A": str(number)}
        async with managed.engines.sessions() as session:
            sealed = (await session.execute(select(VariableChange.sealed))).scalars().all()
        assert set(sealed) == {None}

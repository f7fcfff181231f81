"""Protected variables, which previews never copy, on both databases."""

import asyncio
from typing import Any

import pytest

from control_domain.tables.audit import AuditEntry
from control_domain.tables.variables import ProtectedVariable
from control_domain.variables.protection import open_for_preview, protect_variables
from control_domain.variables.versions import find_newest_variables, open_variables
from pipeline_contracts.errors import NotFound
from tests.support.managed_project import NOW, ManagedProject

LONGEST = "A" * 255


async def _copy(managed: ManagedProject) -> dict[str, str]:
    """Return the variables that a preview would get now."""
    async with managed.engines.sessions() as session:
        return await open_for_preview(session, managed.engines.sealing_keys, managed.environment)


async def _read_own(managed: ManagedProject) -> dict[str, str]:
    """Return the variables of the next release of the environment itself."""
    async with managed.engines.sessions() as session:
        newest = await find_newest_variables(session, managed.environment)
    return open_variables(managed.engines.sealing_keys, newest, managed.environment.public_id)


async def test_previews_get_unprotected_variables(managed: ManagedProject) -> None:
    await managed.set_variables(f"A=1\nDATABASE_URL=hunter2\n{LONGEST}=hunter3\nDATABASE=2\n")
    await managed.protect_variables("DATABASE_URL", LONGEST)
    assert await _copy(managed) == {"A": "1", "DATABASE": "2"}
    assert (await _read_own(managed)).keys() == {"A", "DATABASE_URL", LONGEST, "DATABASE"}
    await managed.unprotect_variable("DATABASE_URL")
    assert await _copy(managed) == {"A": "1", "DATABASE_URL": "hunter2", "DATABASE": "2"}


async def test_protection_outlives_the_variables(managed: ManagedProject) -> None:
    await managed.protect_variables("SECRET")
    assert await _copy(managed) == {}
    for text in ("SECRET=hunter2\nA=1\n", "A=2\n", "A=3\nSECRET=hunter3\n"):
        await managed.set_variables(text)
        assert (await _copy(managed)).keys() == {"A"}


async def test_protection_is_of_one_environment(managed: ManagedProject) -> None:
    await managed.add_environment("Staging")
    await managed.protect_variables("A", environment="staging")
    await managed.set_variables("A=1\n")
    assert await _copy(managed) == {"A": "1"}


async def _protect(managed: ManagedProject, names: list[str]) -> list[str]:
    async with managed.engines.sessions() as session, session.begin():
        target = await managed.read_target(session)
        return list(await protect_variables(session, target, names, managed.actor(), NOW))


@pytest.mark.both_databases
async def test_concurrent_requests_protect_each_name_once(managed: ManagedProject) -> None:
    names = ["A", "B", "C"]
    added = await asyncio.gather(*(_protect(managed, names[number % 3 :]) for number in range(9)))
    assert sorted(name for each in added for name in each) == names
    assert await managed.count(ProtectedVariable) == 3
    outcomes: list[Any] = await asyncio.gather(
        *(managed.unprotect_variable("A") for _ in range(5)), return_exceptions=True
    )
    assert outcomes.count(None) == 1
    assert len([each for each in outcomes if isinstance(each, NotFound)]) == 4
    assert await managed.count(AuditEntry, AuditEntry.action == "variables.unprotect") == 1


# On Postgres a copy reads while another transaction commits; on SQLite it may wait for the lock.
@pytest.mark.both_databases
async def test_a_variable_protected_first_is_never_copied(managed: ManagedProject) -> None:
    """A name is protected, set, removed and unprotected. No copy meanwhile contains its value."""
    copied: list[dict[str, str]] = []
    is_over = asyncio.Event()

    async def copy() -> None:
        while not is_over.is_set():
            copied.append(await _copy(managed))

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(copy())
        for number in range(10):
            await managed.protect_variables("SECRET")
            await managed.set_variables(f"SECRET=hunter2\nA={number}\n")
            await managed.set_variables(f"A={number}\n")
            await managed.unprotect_variable("SECRET")
        is_over.set()
    assert copied and "hunter2" not in str(copied)

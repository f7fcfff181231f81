"""Variables are protected by name, so that no preview gets a copy of them; on both databases."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import select

from control_domain.refusals import Refused
from control_domain.tables.audit import AuditEntry
from control_domain.tables.variables import ProtectedVariable
from control_domain.variables.protection import open_for_preview
from control_domain.variables.versions import find_newest_variables, open_variables
from tests.support.managed_project import ManagedProject

PRODUCTION = {"environment_id": "production"}
LONGEST = "A" * 255


async def _set(managed: ManagedProject, text: str) -> None:
    await managed.act("variables/set", **PRODUCTION, text=text)


async def _copied(managed: ManagedProject) -> dict[str, str]:
    """What a preview would get now."""
    async with managed.engines.sessions() as session:
        return await open_for_preview(session, managed.engines.sealing_keys(), managed.environment)


async def _own(managed: ManagedProject) -> dict[str, str]:
    """What the environment's own next release would run with."""
    async with managed.engines.sessions() as session:
        present = await find_newest_variables(session, managed.environment)
    return open_variables(managed.engines.sealing_keys(), present, managed.environment.public_id)


async def test_names_are_protected_and_shown(managed: ManagedProject) -> None:
    await _set(managed, "B=hunter2\nA=hunter3\n")
    called = {
        "environment_id": managed.environment.public_id,
        "environment": "production",
        "project": "shop",
    }
    told = await managed.act("variables/protect", **PRODUCTION, names=["B", "LATER", "B"])
    names = ["B", "LATER"]
    assert told == {**called, "protected": names, "added": names, "missing": ["LATER"]}
    shown = await managed.act("variables/show", **PRODUCTION)
    assert (shown["names"], shown["protected"]) == (["B", "A"], names)
    subject = f"environment {managed.environment.public_id}"
    entry = ("variables.protect", subject, None, "operator kim", {"names": names})
    assert (await managed.read_audit_log())[0] == entry
    told = await managed.act("variables/unprotect", **PRODUCTION, names=["LATER", "OTHER"])
    assert told == {**called, "protected": ["B"], "removed": ["LATER"]}
    entry = ("variables.unprotect", subject, None, "operator kim", {"names": ["LATER"]})
    assert (await managed.read_audit_log())[0] == entry


async def test_protecting_again_changes_nothing(managed: ManagedProject) -> None:
    await managed.act("variables/protect", **PRODUCTION, names=["A"])
    before = await managed.read_audit_log()
    told = await managed.act("variables/protect", **PRODUCTION, names=["A"])
    assert (told["protected"], told["added"]) == (["A"], [])
    told = await managed.act("variables/unprotect", **PRODUCTION, names=["B"])
    assert (told["protected"], told["removed"]) == (["A"], [])
    assert await managed.read_audit_log() == before


async def test_previews_get_unprotected_variables(managed: ManagedProject) -> None:
    text = f"A=1\nDATABASE_URL=hunter2\n{LONGEST}=hunter3\nDATABASE=2\n"
    await _set(managed, text)
    await managed.act("variables/protect", **PRODUCTION, names=["DATABASE_URL", LONGEST])
    assert await _copied(managed) == {"A": "1", "DATABASE": "2"}
    # The environment itself runs with all of them.
    assert (await _own(managed)).keys() == {"A", "DATABASE_URL", LONGEST, "DATABASE"}
    await managed.act("variables/unprotect", **PRODUCTION, names=["DATABASE_URL"])
    assert await _copied(managed) == {"A": "1", "DATABASE_URL": "hunter2", "DATABASE": "2"}


async def test_protection_outlives_the_variables(managed: ManagedProject) -> None:
    await managed.act("variables/protect", **PRODUCTION, names=["SECRET"])
    assert await _copied(managed) == {}
    for text in ("SECRET=hunter2\nA=1\n", "A=2\n", "A=3\nSECRET=hunter3\n"):
        await _set(managed, text)
        assert (await _copied(managed)).keys() == {"A"}


async def test_protection_is_per_environment(managed: ManagedProject) -> None:
    await managed.act("environments/create", name="Staging", type="staging")
    await managed.act("variables/protect", environment_id="staging", names=["A"])
    await _set(managed, "A=1\n")
    assert await _copied(managed) == {"A": "1"}
    shown = await managed.act("variables/show", environment_id="staging")
    assert (shown["version"], shown["names"], shown["protected"]) == (None, [], ["A"])


@pytest.mark.parametrize("action", ["protect", "unprotect"])
@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"names": []}, "Name 1 to 1000 variables."),
        ({"names": None}, "Name 1 to 1000 variables."),
        ({"names": "A"}, "Name 1 to 1000 variables."),
        ({"names": ["A"] * 1001}, "Name 1 to 1000 variables."),
        ({"names": ["A", "B=hunter2"]}, "Number 2 of the names is none: a name has letters, digits and _"),
        ({"names": [LONGEST + "A"]}, "at most 255 characters. Nothing was changed."),
        ({"names": ["A\n"]}, "Number 1 of the names is none"),
        ({"environment_id": "nowhere"}, "There is no environment nowhere;"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_invalid_names_are_not_protected(
    managed: ManagedProject, action: str, wanted: dict[str, Any], told: str
) -> None:
    line = await managed.expect_refusal(f"variables/{action}", **{**PRODUCTION, "names": ["A"], **wanted})
    assert told in line and "hunter2" not in line
    assert await managed.count(ProtectedVariable) == 0


@pytest.mark.both_databases
async def test_concurrent_requests_protect_each_name_once(managed: ManagedProject) -> None:
    names = ["A", "B", "C"]
    told = await asyncio.gather(
        *(managed.act("variables/protect", **PRODUCTION, names=names[n % 3 :]) for n in range(9))
    )
    assert sorted(name for one in told for name in one["added"]) == names
    assert await managed.count(ProtectedVariable) == 3
    told = await asyncio.gather(
        *(managed.act("variables/unprotect", **PRODUCTION, names=names) for _ in range(5))
    )
    assert sorted(name for one in told for name in one["removed"]) == names
    assert await managed.count(AuditEntry, AuditEntry.action == "variables.unprotect") == 1


@pytest.mark.both_databases
async def test_protecting_while_the_environment_is_removed(managed: ManagedProject) -> None:
    """No mark stays behind, and nothing fails but for a reason that is told."""
    for _ in range(5):
        made = await managed.act("environments/create", name="Busy", type="development")
        removed, told = await asyncio.gather(
            managed.act("environments/remove", id=made["id"]),
            managed.act("variables/protect", environment_id=made["id"], names=["A"]),
            return_exceptions=True,
        )
        assert isinstance(removed, dict), removed
        assert isinstance(told, dict | Refused), told
        assert await managed.count(ProtectedVariable) == 0


# On Postgres a copy reads while another transaction commits; on SQLite it may wait for the lock.
@pytest.mark.both_databases
async def test_a_variable_protected_first_is_never_copied(managed: ManagedProject) -> None:
    """Protected, set, set anew without it, unprotected: whoever copies meanwhile never gets it."""
    copied: list[dict[str, str]] = []
    is_over = asyncio.Event()

    async def copy() -> None:
        while not is_over.is_set():
            copied.append(await _copied(managed))

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(copy())
        for number in range(10):
            await managed.act("variables/protect", **PRODUCTION, names=["SECRET"])
            await _set(managed, f"SECRET=hunter2\nA={number}\n")
            await _set(managed, f"A={number}\n")
            await managed.act("variables/unprotect", **PRODUCTION, names=["SECRET"])
        is_over.set()
    assert copied and "hunter2" not in str(copied)


async def test_nothing_secret_is_in_the_audit_log(managed: ManagedProject) -> None:
    await _set(managed, "A=hunter2\n")
    await managed.act("variables/protect", **PRODUCTION, names=["A"])
    await managed.open_preview("login", "production")
    async with managed.engines.sessions() as session:
        details = (await session.scalars(select(AuditEntry.details))).all()
    assert "hunter2" not in " ".join(details)

"""Variables are protected by name, so that no preview gets a copy of them; on both databases."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import select

from control_domain.refusals import Refused
from control_domain.tables.audit import AuditEntry
from control_domain.tables.variables import ProtectedVariable
from control_domain.variables.operations import find_newest_variables, open_variables
from control_domain.variables.protection import open_for_preview
from tests.support.operated import Operated

PRODUCTION = {"environment_id": "production"}
LONGEST = "A" * 255


async def _set(operated: Operated, text: str) -> None:
    await operated.act("variables/set", **PRODUCTION, text=text)


async def _copied(operated: Operated) -> dict[str, str]:
    """What a preview would get now."""
    async with operated.engines.sessions() as session:
        return await open_for_preview(session, operated.engines.sealing_keys(), operated.environment)


async def _own(operated: Operated) -> dict[str, str]:
    """What the environment's own next release would run with."""
    async with operated.engines.sessions() as session:
        present = await find_newest_variables(session, operated.environment)
    return open_variables(operated.engines.sealing_keys(), present, operated.environment.public_id)


async def test_names_are_protected_and_shown(operated: Operated) -> None:
    await _set(operated, "B=hunter2\nA=hunter3\n")
    called = {
        "environment_id": operated.environment.public_id,
        "environment": "production",
        "project": "shop",
    }
    told = await operated.act("variables/protect", **PRODUCTION, names=["B", "LATER", "B"])
    names = ["B", "LATER"]
    assert told == {**called, "protected": names, "added": names, "missing": ["LATER"]}
    shown = await operated.act("variables/show", **PRODUCTION)
    assert (shown["names"], shown["protected"]) == (["B", "A"], names)
    subject = f"environment {operated.environment.public_id}"
    entry = ("variables.protect", subject, None, "operator kim", {"names": names})
    assert (await operated.audited())[0] == entry
    told = await operated.act("variables/unprotect", **PRODUCTION, names=["LATER", "OTHER"])
    assert told == {**called, "protected": ["B"], "removed": ["LATER"]}
    entry = ("variables.unprotect", subject, None, "operator kim", {"names": ["LATER"]})
    assert (await operated.audited())[0] == entry


async def test_protecting_again_changes_nothing(operated: Operated) -> None:
    await operated.act("variables/protect", **PRODUCTION, names=["A"])
    before = await operated.audited()
    told = await operated.act("variables/protect", **PRODUCTION, names=["A"])
    assert (told["protected"], told["added"]) == (["A"], [])
    told = await operated.act("variables/unprotect", **PRODUCTION, names=["B"])
    assert (told["protected"], told["removed"]) == (["A"], [])
    assert await operated.audited() == before


async def test_previews_get_unprotected_variables(operated: Operated) -> None:
    text = f"A=1\nDATABASE_URL=hunter2\n{LONGEST}=hunter3\nDATABASE=2\n"
    await _set(operated, text)
    await operated.act("variables/protect", **PRODUCTION, names=["DATABASE_URL", LONGEST])
    assert await _copied(operated) == {"A": "1", "DATABASE": "2"}
    # The environment itself runs with all of them.
    assert (await _own(operated)).keys() == {"A", "DATABASE_URL", LONGEST, "DATABASE"}
    await operated.act("variables/unprotect", **PRODUCTION, names=["DATABASE_URL"])
    assert await _copied(operated) == {"A": "1", "DATABASE_URL": "hunter2", "DATABASE": "2"}


async def test_protection_outlives_the_variables(operated: Operated) -> None:
    await operated.act("variables/protect", **PRODUCTION, names=["SECRET"])
    assert await _copied(operated) == {}
    for text in ("SECRET=hunter2\nA=1\n", "A=2\n", "A=3\nSECRET=hunter3\n"):
        await _set(operated, text)
        assert (await _copied(operated)).keys() == {"A"}


async def test_protection_is_per_environment(operated: Operated) -> None:
    await operated.act("environments/create", name="Staging", type="staging")
    await operated.act("variables/protect", environment_id="staging", names=["A"])
    await _set(operated, "A=1\n")
    assert await _copied(operated) == {"A": "1"}
    shown = await operated.act("variables/show", environment_id="staging")
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
    operated: Operated, action: str, wanted: dict[str, Any], told: str
) -> None:
    line = await operated.refused(f"variables/{action}", **{**PRODUCTION, "names": ["A"], **wanted})
    assert told in line and "hunter2" not in line
    assert await operated.count(ProtectedVariable) == 0


@pytest.mark.both_databases
async def test_concurrent_requests_protect_each_name_once(operated: Operated) -> None:
    names = ["A", "B", "C"]
    told = await asyncio.gather(
        *(operated.act("variables/protect", **PRODUCTION, names=names[n % 3 :]) for n in range(9))
    )
    assert sorted(name for one in told for name in one["added"]) == names
    assert await operated.count(ProtectedVariable) == 3
    told = await asyncio.gather(
        *(operated.act("variables/unprotect", **PRODUCTION, names=names) for _ in range(5))
    )
    assert sorted(name for one in told for name in one["removed"]) == names
    assert await operated.count(AuditEntry, AuditEntry.action == "variables.unprotect") == 1


@pytest.mark.both_databases
async def test_protecting_while_the_environment_is_removed(operated: Operated) -> None:
    """No mark stays behind, and nothing fails but for a reason that is told."""
    for _ in range(5):
        made = await operated.act("environments/create", name="Busy", type="development")
        removed, told = await asyncio.gather(
            operated.act("environments/remove", id=made["id"]),
            operated.act("variables/protect", environment_id=made["id"], names=["A"]),
            return_exceptions=True,
        )
        assert isinstance(removed, dict), removed
        assert isinstance(told, dict | Refused), told
        assert await operated.count(ProtectedVariable) == 0


# On Postgres a copy reads while another transaction commits; on SQLite it may wait for the lock.
@pytest.mark.both_databases
async def test_a_variable_protected_first_is_never_copied(operated: Operated) -> None:
    """Protected, set, set anew without it, unprotected: whoever copies meanwhile never gets it."""
    copied: list[dict[str, str]] = []
    is_over = asyncio.Event()

    async def copy() -> None:
        while not is_over.is_set():
            copied.append(await _copied(operated))

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(copy())
        for number in range(10):
            await operated.act("variables/protect", **PRODUCTION, names=["SECRET"])
            await _set(operated, f"SECRET=hunter2\nA={number}\n")
            await _set(operated, f"A={number}\n")
            await operated.act("variables/unprotect", **PRODUCTION, names=["SECRET"])
        is_over.set()
    assert copied and "hunter2" not in str(copied)


async def test_nothing_secret_is_in_the_audit_log(operated: Operated) -> None:
    await _set(operated, "A=hunter2\n")
    await operated.act("variables/protect", **PRODUCTION, names=["A"])
    await operated.act("previews/open", branch="login", **{"from": "production"})
    async with operated.engines.sessions() as session:
        details = (await session.scalars(select(AuditEntry.details))).all()
    assert "hunter2" not in " ".join(details)

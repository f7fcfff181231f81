"""Variables as an operator handles them: by name, never a value; on both databases."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from control_domain.refusals import Refused
from control_domain.sealing import Sealed, SealingKeys
from control_domain.tables.audit import AuditEntry
from control_domain.tables.variables import VariableChange, VariableSet
from control_domain.variables.versions import find_newest_variables
from operator_actions.actions import variables as actions
from tests.support.managed_project import ManagedProject

AT = "2026-11-18T12:00:00.000Z"
MAINTAINER, OWNER = "maintainer@acme.example", "owner@acme.example"
OLD, NEW = b"k" * 32, b"n" * 32


async def _set(managed: ManagedProject, text: str, **wanted: Any) -> Any:
    return await managed.act("variables/set", environment_id="production", text=text, **wanted)


async def _values(managed: ManagedProject) -> dict[str, str]:
    """What the next release would run with."""
    async with managed.engines.sessions() as session:
        present = await find_newest_variables(session, managed.environment)
    assert present is not None
    sealed = Sealed(present.key_id, present.sealed)
    return managed.engines.sealing_keys().open(sealed, managed.environment.public_id)


def _use_keys(managed: ManagedProject, *keys: bytes) -> None:
    managed.engines = replace(managed.engines, variable_keys=SealingKeys(keys) if keys else None)


async def test_variables_are_shown_by_name(managed: ManagedProject) -> None:
    called = {
        "environment_id": managed.environment.public_id,
        "environment": "production",
        "project": "shop",
    }
    shown = await managed.act("variables/show", environment_id="production")
    nothing = {"version": None, "names": [], "set_at": None, "set_by": None, "pending_change_id": None}
    assert shown == {**called, **nothing, "protected": [], "not_live": False}
    told = await _set(managed, "B=hunter2\nA=hunter3\n", by="deployer@acme.example")
    assert told == {**called, "count": 2, "change_id": None}
    shown = await managed.act("variables/show", environment_id="production")
    assert shown == {
        **called,
        "version": 1,
        "names": ["B", "A"],
        "protected": [],
        "set_at": AT,
        "set_by": "deployer@acme.example",
        "pending_change_id": None,
        "not_live": False,
    }
    entry = (
        "variables.replace",
        f"environment {managed.environment.public_id}",
        "deployer@acme.example",
        "operator kim",
        {"names": ["A", "B"]},
    )
    assert await managed.read_audit_log() == [entry]
    assert await _values(managed) == {"B": "hunter2", "A": "hunter3"}


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (
            {"text": "A=1\nB"},
            "line 2: there is no =. Correct this and set them all again; nothing was changed.",
        ),
        (
            {"text": "\n".join("hunter2" for _ in range(9))},
            "line 1: there is no =; line 2: there is no =; line 3: there is no =; line 4: there is no =; line 5: there "
            "is no =; and 4 more. Correct this",
        ),
        ({"text": "A=" + "x" * 2**18}, "the text has more than 262144 bytes. Correct this"),
        ({"by": "viewer@acme.example"}, "viewer@acme.example may not deploy in the project shop"),
        ({"environment_id": "nowhere"}, "There is no environment nowhere;"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_invalid_variables_are_refused(
    managed: ManagedProject, wanted: dict[str, Any], told: str
) -> None:
    given = {"environment_id": "production", "text": "A=hunter2", **wanted}
    line = await managed.expect_refusal("variables/set", **given)
    assert told in line and "hunter2" not in line
    assert await managed.count(VariableSet) == 0


async def test_a_change_that_needs_approval_waits(managed: ManagedProject) -> None:
    await _set(managed, "KEPT=1\nOLD=2\nSAME=hunter2\n")
    await managed.act("environments/set", id="production", variable_approval=True)
    told = await _set(managed, "KEPT=changed\nSAME=hunter2\nNEW=3\n", by=OWNER)
    assert told["change_id"] is not None
    (waiting,) = await managed.act("variables/waiting")
    assert waiting == {
        "id": told["change_id"],
        "environment_id": managed.environment.public_id,
        "environment": "production",
        "project": "shop",
        "count": 3,
        "asked_by": OWNER,
        "created_at": AT,
        "names": {"added": ["NEW"], "changed": ["KEPT"], "removed": ["OLD"]},
    }
    shown = await managed.act("variables/show", environment_id="production")
    assert (shown["version"], shown["pending_change_id"]) == (1, told["change_id"])
    done = await managed.act("variables/approve", id=told["change_id"], by=MAINTAINER)
    assert (done["status"], done["count"], done["environment"]) == ("applied", 3, "production")
    assert await managed.act("variables/waiting") == []
    assert await _values(managed) == {"KEPT": "changed", "SAME": "hunter2", "NEW": "3"}
    shown = await managed.act("variables/show", environment_id="production")
    assert (shown["version"], shown["set_by"], shown["pending_change_id"]) == (2, OWNER, None)
    subject = f"environment {managed.environment.public_id}"
    details = {"change": told["change_id"], "reason": None}
    assert (await managed.read_audit_log())[0] == (
        "variables.approve",
        subject,
        MAINTAINER,
        "operator kim",
        details,
    )


async def test_a_change_that_needs_approval_names_its_author(managed: ManagedProject) -> None:
    await managed.act("environments/set", id="production", variable_approval=True)
    line = await managed.expect_refusal("variables/set", environment_id="production", text="A=1")
    assert line == (
        "A second person has to agree to variables of this environment: say who asks for them with --by EMAIL."
    )
    assert await managed.count(VariableChange) == 0


@pytest.mark.parametrize("action", ["approve", "reject"])
@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"by": OWNER}, "Owner has asked for it: somebody else has to decide."),
        (
            {"by": "deployer@acme.example"},
            "deployer@acme.example may not decide what waits in the project shop",
        ),
        ({"by": "outsider@other.example"}, "outsider@other.example may not decide"),
        ({"id": 999}, "There is no change 999 of variables; `pharos approvals` shows those that wait."),
    ],
    ids=str,
)
async def test_invalid_decisions_are_refused(
    managed: ManagedProject, action: str, wanted: dict[str, Any], told: str
) -> None:
    await managed.act("environments/set", id="production", variable_approval=True)
    change = (await _set(managed, "A=1", by=OWNER))["change_id"]
    given = {"id": change, "by": MAINTAINER, "reason": "no", **wanted}
    assert told in await managed.expect_refusal(f"variables/{action}", **given)
    assert len(await managed.act("variables/waiting")) == 1


async def test_a_rejected_change_loses_its_values(managed: ManagedProject) -> None:
    await _set(managed, "A=1")
    await managed.act("environments/set", id="production", variable_approval=True)
    change = (await _set(managed, "A=2", by=OWNER))["change_id"]
    assert "A reason has 1 to 500" in await managed.expect_refusal(
        "variables/reject", id=change, by=MAINTAINER
    )
    told = await managed.act("variables/reject", id=change, by=MAINTAINER, reason="wrong")
    assert told["status"] == "rejected"
    assert await _values(managed) == {"A": "1"}
    async with managed.engines.sessions() as session:
        row = await session.get_one(VariableChange, change)
    assert (row.sealed, row.key_id, row.decided_by_id) == (None, None, managed.people["maintainer"].id)
    assert (await managed.read_audit_log())[0][4] == {"change": change, "reason": "wrong"}
    line = await managed.expect_refusal("variables/approve", id=change, by=MAINTAINER)
    assert line == (
        f"Change {change} of variables is rejected: only one that waits can be decided on; `pharos approvals` shows "
        "those that do."
    )


async def test_a_change_never_restores_older_variables(managed: ManagedProject) -> None:
    """It waits, approvals are turned off, newer variables are set at once: they count."""
    await managed.act("environments/set", id="production", variable_approval=True)
    change = (await _set(managed, "A=old", by=OWNER))["change_id"]
    agreed = {"by": OWNER, "approved_by": MAINTAINER}
    await managed.act("environments/set", id="production", variable_approval=False, **agreed)
    await _set(managed, "A=new")
    assert "is superseded" in await managed.expect_refusal("variables/approve", id=change, by=MAINTAINER)
    assert await _values(managed) == {"A": "new"}


@pytest.mark.both_databases
async def test_of_many_concurrent_decisions_one_is_accepted(managed: ManagedProject) -> None:
    await managed.act("environments/set", id="production", variable_approval=True)
    change = (await _set(managed, "A=1", by=OWNER))["change_id"]
    told = await asyncio.gather(
        *(managed.act("variables/approve", id=change, by=MAINTAINER) for _ in range(4)),
        *(managed.act("variables/reject", id=change, by=MAINTAINER, reason="no") for _ in range(4)),
        return_exceptions=True,
    )
    (done,) = [one for one in told if isinstance(one, dict)]
    assert len([one for one in told if isinstance(one, Refused)]) == 7
    assert await managed.count(VariableSet) == (1 if done["status"] == "applied" else 0)
    decided = AuditEntry.action.in_(("variables.approve", "variables.reject"))
    assert await managed.count(AuditEntry, decided) == 1


async def test_without_the_key_only_names_are_missing(managed: ManagedProject) -> None:
    await managed.act("environments/set", id="production", variable_approval=True)
    await _set(managed, "A=1", by=OWNER)
    _use_keys(managed)
    told = "Set PHAROS_VARIABLES_KEY as well: variables are sealed with it."
    for action in ("show", "set", "rotate-key"):
        line = await managed.expect_refusal(
            f"variables/{action}", environment_id="production", text="", by=OWNER
        )
        assert line == told
    (waiting,) = await managed.act("variables/waiting")
    assert (waiting["names"], waiting["warning"]) == (None, told)
    # To agree to what one cannot see here is possible: it was looked at elsewhere.
    assert (await managed.act("variables/approve", id=waiting["id"], by=MAINTAINER))["status"] == "applied"
    _use_keys(managed, NEW)
    line = await managed.expect_refusal("variables/show", environment_id="production")
    assert "is not among PHAROS_VARIABLES_KEY. Put its secret behind the present one: new,old." in line


async def test_keys_are_rotated_in_batches(managed: ManagedProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "MOST_RESEALED", 2)
    for number in range(5):
        await _set(managed, f"A={number}")
    await managed.act("environments/set", id="production", variable_approval=True)
    change = (await _set(managed, "A=waits", by=OWNER))["change_id"]
    _use_keys(managed, NEW, OLD)
    before = len(await managed.read_audit_log())
    rounds = [await managed.act("variables/rotate-key") for _ in range(4)]
    key_id = SealingKeys([NEW]).key_id
    assert rounds == [
        {"resealed": done, "left": left, "key_id": key_id} for done, left in ((3, 3), (2, 1), (1, 0), (0, 0))
    ]
    entries = await managed.read_audit_log()
    assert len(entries) == before + 3
    assert entries[0] == ("variables.reseal", f"key {key_id}", None, "operator kim", {"sets": 1})
    # The old key is needed no more, not for what waits either.
    _use_keys(managed, NEW)
    assert await _values(managed) == {"A": "4"}
    assert (await managed.act("variables/waiting"))[0]["names"]["changed"] == ["A"]
    await managed.act("variables/approve", id=change, by=MAINTAINER)
    assert await _values(managed) == {"A": "waits"}


async def test_a_missing_key_stops_the_rotation(managed: ManagedProject) -> None:
    await _set(managed, "A=1")
    _use_keys(managed, NEW)
    line = await managed.expect_refusal("variables/rotate-key")
    assert f"The secrets of {managed.environment.public_id} are sealed under the key" in line


@pytest.mark.both_databases
async def test_a_decision_during_the_rotation_loses_nothing(managed: ManagedProject) -> None:
    """What was decided does not get its values back, and what is applied opens with the new key alone in the end."""
    for number in range(8):
        await managed.act("environments/set", id="production", variable_approval=True)
        change = (await _set(managed, f"A={number}", by=OWNER))["change_id"]
        keys = (NEW, OLD) if number % 2 else (OLD, NEW)
        _use_keys(managed, *keys)
        await asyncio.gather(
            managed.act("variables/approve", id=change, by=MAINTAINER),
            *(managed.act("variables/rotate-key") for _ in range(3)),
        )
        while (await managed.act("variables/rotate-key"))["left"]:
            pass
        _use_keys(managed, keys[0])
        assert await _values(managed) == {"A": str(number)}
        async with managed.engines.sessions() as session:
            sealed = (await session.execute(select(VariableChange.sealed))).scalars().all()
        assert set(sealed) == {None}


async def test_no_value_is_in_the_audit_log(managed: ManagedProject) -> None:
    await managed.act("environments/set", id="production", variable_approval=True)
    for text in ("A=hunter2", "A=hunter3"):
        change = (await _set(managed, text, by=OWNER))["change_id"]
    await managed.act("variables/approve", id=change, by=MAINTAINER)
    assert "hunter" not in json.dumps(await managed.read_audit_log())

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
from control_domain.variables.operations import find_newest_variables
from operator_actions.actions import variables as actions
from tests.support.operated import Operated

AT = "2026-11-18T12:00:00.000Z"
MAINTAINER, OWNER = "maintainer@acme.example", "owner@acme.example"
OLD, NEW = b"k" * 32, b"n" * 32


async def _set(operated: Operated, text: str, **wanted: Any) -> Any:
    return await operated.act("variables/set", environment_id="production", text=text, **wanted)


async def _values(operated: Operated) -> dict[str, str]:
    """What the next release would run with."""
    async with operated.engines.sessions() as session:
        present = await find_newest_variables(session, operated.environment)
    assert present is not None
    sealed = Sealed(present.key_id, present.sealed)
    return operated.engines.sealing_keys().open(sealed, operated.environment.public_id)


def _use_keys(operated: Operated, *keys: bytes) -> None:
    operated.engines = replace(operated.engines, variable_keys=SealingKeys(keys) if keys else None)


async def test_variables_are_shown_by_name(operated: Operated) -> None:
    called = {
        "environment_id": operated.environment.public_id,
        "environment": "production",
        "project": "shop",
    }
    shown = await operated.act("variables/show", environment_id="production")
    nothing = {"version": None, "names": [], "set_at": None, "set_by": None, "pending_change_id": None}
    assert shown == {**called, **nothing, "protected": [], "not_live": False}
    told = await _set(operated, "B=hunter2\nA=hunter3\n", by="deployer@acme.example")
    assert told == {**called, "count": 2, "change_id": None}
    shown = await operated.act("variables/show", environment_id="production")
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
        f"environment {operated.environment.public_id}",
        "deployer@acme.example",
        "operator kim",
        {"names": ["A", "B"]},
    )
    assert await operated.audited() == [entry]
    assert await _values(operated) == {"B": "hunter2", "A": "hunter3"}


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"text": "A=1\nB"}, "line 2: there is no =. Mend that and set them all again; nothing was changed."),
        (
            {"text": "\n".join("hunter2" for _ in range(9))},
            "line 1: there is no =; line 2: there is no =; line 3: there is no =; line 4: there is no =; line 5: there "
            "is no =; and 4 more. Mend that",
        ),
        ({"text": "A=" + "x" * 2**18}, "the text has more than 262144 bytes. Mend that"),
        ({"by": "viewer@acme.example"}, "viewer@acme.example may not deploy in the project shop"),
        ({"environment_id": "nowhere"}, "There is no environment nowhere;"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_invalid_variables_are_refused(operated: Operated, wanted: dict[str, Any], told: str) -> None:
    given = {"environment_id": "production", "text": "A=hunter2", **wanted}
    line = await operated.refused("variables/set", **given)
    assert told in line and "hunter2" not in line
    assert await operated.count(VariableSet) == 0


async def test_a_change_that_needs_approval_waits(operated: Operated) -> None:
    await _set(operated, "KEPT=1\nOLD=2\nSAME=hunter2\n")
    await operated.act("environments/set", id="production", variable_approval=True)
    told = await _set(operated, "KEPT=changed\nSAME=hunter2\nNEW=3\n", by=OWNER)
    assert told["change_id"] is not None
    (waiting,) = await operated.act("variables/waiting")
    assert waiting == {
        "id": told["change_id"],
        "environment_id": operated.environment.public_id,
        "environment": "production",
        "project": "shop",
        "count": 3,
        "asked_by": OWNER,
        "created_at": AT,
        "names": {"added": ["NEW"], "changed": ["KEPT"], "removed": ["OLD"]},
    }
    shown = await operated.act("variables/show", environment_id="production")
    assert (shown["version"], shown["pending_change_id"]) == (1, told["change_id"])
    done = await operated.act("variables/approve", id=told["change_id"], by=MAINTAINER)
    assert (done["status"], done["count"], done["environment"]) == ("applied", 3, "production")
    assert await operated.act("variables/waiting") == []
    assert await _values(operated) == {"KEPT": "changed", "SAME": "hunter2", "NEW": "3"}
    shown = await operated.act("variables/show", environment_id="production")
    assert (shown["version"], shown["set_by"], shown["pending_change_id"]) == (2, OWNER, None)
    subject = f"environment {operated.environment.public_id}"
    details = {"change": told["change_id"], "reason": None}
    assert (await operated.audited())[0] == (
        "variables.approve",
        subject,
        MAINTAINER,
        "operator kim",
        details,
    )


async def test_a_change_that_needs_approval_names_its_author(operated: Operated) -> None:
    await operated.act("environments/set", id="production", variable_approval=True)
    line = await operated.refused("variables/set", environment_id="production", text="A=1")
    assert line == (
        "A second person has to agree to variables of this environment: say who asks for them with --by EMAIL."
    )
    assert await operated.count(VariableChange) == 0


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
    operated: Operated, action: str, wanted: dict[str, Any], told: str
) -> None:
    await operated.act("environments/set", id="production", variable_approval=True)
    change = (await _set(operated, "A=1", by=OWNER))["change_id"]
    given = {"id": change, "by": MAINTAINER, "reason": "no", **wanted}
    assert told in await operated.refused(f"variables/{action}", **given)
    assert len(await operated.act("variables/waiting")) == 1


async def test_a_rejected_change_loses_its_values(operated: Operated) -> None:
    await _set(operated, "A=1")
    await operated.act("environments/set", id="production", variable_approval=True)
    change = (await _set(operated, "A=2", by=OWNER))["change_id"]
    assert "A reason has 1 to 500" in await operated.refused("variables/reject", id=change, by=MAINTAINER)
    told = await operated.act("variables/reject", id=change, by=MAINTAINER, reason="wrong")
    assert told["status"] == "rejected"
    assert await _values(operated) == {"A": "1"}
    async with operated.engines.sessions() as session:
        row = await session.get_one(VariableChange, change)
    assert (row.sealed, row.key_id, row.decided_by_id) == (None, None, operated.people["maintainer"].id)
    assert (await operated.audited())[0][4] == {"change": change, "reason": "wrong"}
    line = await operated.refused("variables/approve", id=change, by=MAINTAINER)
    assert line == (
        f"Change {change} of variables is rejected: only one that waits can be decided on; `pharos approvals` shows "
        "those that do."
    )


async def test_a_change_never_restores_older_variables(operated: Operated) -> None:
    """It waits, approvals are turned off, newer variables are set at once: they count."""
    await operated.act("environments/set", id="production", variable_approval=True)
    change = (await _set(operated, "A=old", by=OWNER))["change_id"]
    agreed = {"by": OWNER, "approved_by": MAINTAINER}
    await operated.act("environments/set", id="production", variable_approval=False, **agreed)
    await _set(operated, "A=new")
    assert "is superseded" in await operated.refused("variables/approve", id=change, by=MAINTAINER)
    assert await _values(operated) == {"A": "new"}


@pytest.mark.both_databases
async def test_of_many_concurrent_decisions_one_is_accepted(operated: Operated) -> None:
    await operated.act("environments/set", id="production", variable_approval=True)
    change = (await _set(operated, "A=1", by=OWNER))["change_id"]
    told = await asyncio.gather(
        *(operated.act("variables/approve", id=change, by=MAINTAINER) for _ in range(4)),
        *(operated.act("variables/reject", id=change, by=MAINTAINER, reason="no") for _ in range(4)),
        return_exceptions=True,
    )
    (done,) = [one for one in told if isinstance(one, dict)]
    assert len([one for one in told if isinstance(one, Refused)]) == 7
    assert await operated.count(VariableSet) == (1 if done["status"] == "applied" else 0)
    decided = AuditEntry.action.in_(("variables.approve", "variables.reject"))
    assert await operated.count(AuditEntry, decided) == 1


async def test_without_the_key_only_names_are_missing(operated: Operated) -> None:
    await operated.act("environments/set", id="production", variable_approval=True)
    await _set(operated, "A=1", by=OWNER)
    _use_keys(operated)
    told = "Set PHAROS_VARIABLES_KEY as well: variables are sealed with it."
    for action in ("show", "set", "rotate-key"):
        line = await operated.refused(f"variables/{action}", environment_id="production", text="", by=OWNER)
        assert line == told
    (waiting,) = await operated.act("variables/waiting")
    assert (waiting["names"], waiting["warning"]) == (None, told)
    # To agree to what one cannot see here is possible: it was looked at elsewhere.
    assert (await operated.act("variables/approve", id=waiting["id"], by=MAINTAINER))["status"] == "applied"
    _use_keys(operated, NEW)
    line = await operated.refused("variables/show", environment_id="production")
    assert "is not among PHAROS_VARIABLES_KEY. Put its secret behind the present one: new,old." in line


async def test_keys_are_rotated_in_batches(operated: Operated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "MOST_RESEALED", 2)
    for number in range(5):
        await _set(operated, f"A={number}")
    await operated.act("environments/set", id="production", variable_approval=True)
    change = (await _set(operated, "A=waits", by=OWNER))["change_id"]
    _use_keys(operated, NEW, OLD)
    before = len(await operated.audited())
    rounds = [await operated.act("variables/rotate-key") for _ in range(4)]
    key_id = SealingKeys([NEW]).key_id
    assert rounds == [
        {"resealed": done, "left": left, "key_id": key_id} for done, left in ((3, 3), (2, 1), (1, 0), (0, 0))
    ]
    entries = await operated.audited()
    assert len(entries) == before + 3
    assert entries[0] == ("variables.reseal", f"key {key_id}", None, "operator kim", {"sets": 1})
    # The old key is needed no more, not for what waits either.
    _use_keys(operated, NEW)
    assert await _values(operated) == {"A": "4"}
    assert (await operated.act("variables/waiting"))[0]["names"]["changed"] == ["A"]
    await operated.act("variables/approve", id=change, by=MAINTAINER)
    assert await _values(operated) == {"A": "waits"}


async def test_a_missing_key_stops_the_rotation(operated: Operated) -> None:
    await _set(operated, "A=1")
    _use_keys(operated, NEW)
    line = await operated.refused("variables/rotate-key")
    assert f"The secrets of {operated.environment.public_id} are sealed under the key" in line


@pytest.mark.both_databases
async def test_a_decision_during_the_rotation_loses_nothing(operated: Operated) -> None:
    """What was decided does not get its values back, and what is applied opens with the new key alone in the end."""
    for number in range(8):
        await operated.act("environments/set", id="production", variable_approval=True)
        change = (await _set(operated, f"A={number}", by=OWNER))["change_id"]
        keys = (NEW, OLD) if number % 2 else (OLD, NEW)
        _use_keys(operated, *keys)
        await asyncio.gather(
            operated.act("variables/approve", id=change, by=MAINTAINER),
            *(operated.act("variables/rotate-key") for _ in range(3)),
        )
        while (await operated.act("variables/rotate-key"))["left"]:
            pass
        _use_keys(operated, keys[0])
        assert await _values(operated) == {"A": str(number)}
        async with operated.engines.sessions() as session:
            sealed = (await session.execute(select(VariableChange.sealed))).scalars().all()
        assert set(sealed) == {None}


async def test_no_value_is_in_the_audit_log(operated: Operated) -> None:
    await operated.act("environments/set", id="production", variable_approval=True)
    for text in ("A=hunter2", "A=hunter3"):
        change = (await _set(operated, text, by=OWNER))["change_id"]
    await operated.act("variables/approve", id=change, by=MAINTAINER)
    assert "hunter" not in json.dumps(await operated.audited())

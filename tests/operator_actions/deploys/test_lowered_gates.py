"""An operator's commands lower a gate only where two people are named, and say in the audit log who they were."""

from typing import Any

import pytest

from tests.support.managed_project import ManagedProject

ASKER, SECOND = "deployer@acme.example", "maintainer@acme.example"
AGREED = {"by": ASKER, "approved_by": SECOND}
WINDOW = "mon-thu 09:00-16:00 Europe/Oslo"
# By what they do: the action, and what it is asked for.
LOWERING: dict[str, tuple[str, dict[str, Any]]] = {
    "approval of deploys off": ("environments/set", {"id": "production", "deploy_approval": False}),
    "approval of variables off": ("environments/set", {"id": "production", "variable_approval": False}),
    "no window": ("environments/set", {"id": "production", "window": None}),
    "a wider window": ("environments/set", {"id": "production", "window": "mon-fri 09:00-16:00 Europe/Oslo"}),
    "unprotected": ("variables/unprotect", {"environment_id": "production", "names": ["KEY"]}),
    "removed": ("environments/remove", {"id": "production"}),
}


@pytest.fixture
async def gated(managed: ManagedProject) -> ManagedProject:
    """With an environment that wants a second person."""
    await managed.act("variables/set", environment_id="production", text="KEY=1\nOTHER=2\n")
    await managed.act("variables/protect", environment_id="production", names=["KEY"])
    wanted = {"window": WINDOW, "deploy_approval": True, "variable_approval": True}
    await managed.act("environments/set", id="production", **wanted)
    return managed


@pytest.mark.parametrize(("action", "wanted"), LOWERING.values(), ids=LOWERING)
async def test_a_gate_is_lowered_by_two_people(
    gated: ManagedProject, action: str, wanted: dict[str, Any]
) -> None:
    for named in ({}, {"by": ASKER}, {"approved_by": SECOND}):
        line = await gated.expect_refusal(action, **wanted, **named)
        assert "wants a second person, and this would take away " in line
        assert "--by EMAIL" in line and "--approved-by EMAIL" in line
    for by, approved_by, told in (
        (SECOND, SECOND, "has asked for it: somebody else has to decide."),
        (SECOND, ASKER, "may not decide what waits"),
        ("viewer@acme.example", SECOND, "may not deploy in"),
        (ASKER, "outsider@other.example", "may not decide what waits"),
        (ASKER, "nobody@acme.example", "There is no person"),
    ):
        assert told in await gated.expect_refusal(action, **wanted, by=by, approved_by=approved_by)
    await gated.act(action, **wanted, **AGREED)
    details = (await gated.read_audit_log())[0][4]
    assert (details["asked_by"], details["approved_by"]) == (ASKER, SECOND)
    assert len(details["lowered"]) == 1


async def test_changes_that_lower_no_gate_need_no_second_person(gated: ManagedProject) -> None:
    for change in (
        {"window": "mon-wed 10:00-16:00 Europe/Oslo"},
        {"name": "Live"},
        {"wake_on_request": True},
        {"deploy_approval": True},
    ):
        await gated.act("environments/set", id="production", **change)
    await gated.change_environment(deploys_need_approval=False, variables_need_approval=False)
    for action, wanted in (LOWERING["no window"], LOWERING["unprotected"], LOWERING["removed"]):
        await gated.act(action, **wanted)

"""Variables by name: set, removed, protected, and changes that a second person decides on."""

import asyncio
import json
import logging
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select, update

from control_domain.sealing import SealingKeys
from control_domain.tables.audit import AuditEntry
from control_domain.tables.deployments import LiveRelease, Release
from control_domain.tables.variables import VariableChange, VariableSet
from control_domain.variables import pending, protection
from control_domain.variables.dotenv import MAX_VARIABLES
from control_domain.variables.versions import open_variables
from tests.control_api.management.conftest import Api
from tests.support.serve_control import VARIABLE_KEYS

NAME = "shop/production"


def _path(api: Api, rest: str = "", name: str = NAME) -> str:
    return f"/v1/environments/{api.platform.acme.environment(name).public_id}/variables{rest}"


async def _values(api: Api, name: str = NAME) -> dict[str, str]:
    environment = api.platform.acme.environment(name)
    query = select(VariableSet).where(VariableSet.environment_id == environment.id)
    async with api.platform.sessions() as session:
        newest = (await session.execute(query.order_by(VariableSet.version.desc()).limit(1))).scalar_one()
    return open_variables(VARIABLE_KEYS, newest, environment.public_id)


async def _audited(api: Api, limit: int = 1) -> list[tuple[str, Any]]:
    query = select(AuditEntry.action, AuditEntry.details).order_by(AuditEntry.id.desc()).limit(limit)
    async with api.platform.sessions() as session:
        return [(action, json.loads(details)) for action, details in await session.execute(query)]


async def _set(api: Api, text: str) -> None:
    assert (await api.platform.call("PUT", _path(api), {"variables": text})).status == 200


async def _propose(api: Api, body: dict[str, Any], by: str = "deployer") -> int:
    """Propose a change in an environment that requires approval, and return its ID."""
    await api.platform.change(NAME, variables_need_approval=True)
    answer = await api.call("PATCH", _path(api), body, by=by)
    assert answer.status == 202, answer.body
    assert answer.data == {"status": "pending_approval", "change_id": answer.data["change_id"]}
    number: int = answer.data["change_id"]
    return number


async def _decide(api: Api, change: int, by: str = "maintainer") -> Any:
    answer = await api.call("POST", f"/v1/variable-changes/{change}/approve", by=by)
    assert answer.status == 200, answer.body
    return answer.data


async def test_set_and_remove_some(api: Api) -> None:
    await _set(api, "A=1\nB=1\nC=1")
    changed = await api.call(
        "PATCH", _path(api), {"set": {"B": "two", "D": ""}, "unset": ["C", "GONE"]}, by="deployer"
    )
    assert changed.status == 200
    assert await _values(api) == {"A": "1", "B": "two", "D": ""}
    assert changed.data == await api.read(_path(api))
    acme = api.platform.acme
    environment, project = acme.environment(NAME), acme.projects["shop"]
    deployer = acme.people["deployer"]
    assert changed.data == {
        "project": {"id": project.public_id, "name": "Shop", "slug": "shop"},
        "environment": {"id": environment.public_id, "name": "Production", "slug": "production"},
        "version": 2,
        "set_at": changed.data["set_at"],
        "set_by": {"id": deployer.public_id, "name": deployer.name, "email": deployer.email},
        "not_live": False,
        "variables": [{"name": name, "is_set": True, "protected": False} for name in "ABD"],
        "pending_changes": [],
    }
    assert await _audited(api) == [("variables.update", {"names": ["B", "D"], "removed": ["C", "GONE"]})]


async def test_setting_the_same_again_adds_no_version(api: Api) -> None:
    await _set(api, "A=1\nB=2")
    before = await api.read(_path(api)), await api.audit()
    for method, path, body in (
        ("PATCH", _path(api), {"set": {"A": "1"}, "unset": ["GONE"]}),
        ("PUT", _path(api, "/B"), {"value": "2"}),
        ("DELETE", _path(api, "/GONE"), None),
    ):
        answer = await api.call(method, path, body, by="deployer")
        assert answer.status in (200, 404), answer.body
    assert (await api.read(_path(api)), await api.audit()) == before


async def test_one_variable(api: Api) -> None:
    made = await api.call("PUT", _path(api, "/A"), {"value": "a=b\n"}, by="deployer")
    assert (made.status, await _values(api)) == (200, {"A": "a=b\n"})
    await api.call("PUT", _path(api, "/B"), {"value": "1"})
    removed = await api.call("DELETE", _path(api, "/A"))
    assert (removed.data["version"], await _values(api)) == (3, {"B": "1"})
    for name in ("A", "1x", "%00", "a%2Fb", "A" * 256):
        await api.expect((404, "not-found"), "DELETE", _path(api, f"/{name}"))


async def test_never_set(shared_api: Api) -> None:
    seen = await shared_api.read(_path(shared_api, name="shop/development"), by="viewer")
    assert (seen["version"], seen["set_by"], seen["variables"]) == (None, None, [])


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["set"]),
        ({"set": {}, "unset": []}, ["set"]),
        ({"set": [], "unset": "A"}, ["set", "unset"]),
        ({"set": {"A": 1}}, ["set[...]"]),
        ({"set": {"1A": "x", "B-": "y"}, "unset": ["C D"]}, ["set", "set", "unset"]),
        ({"set": {"A": "x"}, "unset": ["A"]}, ["unset.A"]),
        ({"set": {"A": "nul\0"}}, ["set"]),
        (b'{"set": {"A": "\\ud800"}}', [""]),
        (b'{"set": {"\\ud800": "a"}}', [""]),
        ({"set": {"A": "x" * (128 * 1024)}}, ["set.A"]),
        ({"set": {f"N{number}": "" for number in range(MAX_VARIABLES + 1)}}, ["set"]),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_invalid_updates(shared_api: Api, body: Any, fields: list[str]) -> None:
    refused = await shared_api.expect((422, "validation-failed"), "PATCH", _path(shared_api), body)
    assert refused.fields == fields


async def test_invalid_value_or_name(shared_api: Api) -> None:
    for rest, value, field in (
        ("/1A", "x", "variable"),
        ("/A%0A", "x", "variable"),
        (f"/{'A' * 256}", "x", "variable"),
        ("/A%20B", "x", "variable"),
        ("/A", "x" * (128 * 1024), "value"),
        ("/A", None, "value"),
        ("/A", 7, "value"),
    ):
        refused = await shared_api.expect(
            (422, "validation-failed"), "PUT", _path(shared_api, rest), {"value": value}
        )
        assert refused.fields == [field]
    refused = await shared_api.expect((422, "validation-failed"), "PUT", _path(shared_api, "/1A/protection"))
    assert refused.fields == ["variable"]


async def test_limits_of_the_whole(api: Api) -> None:
    await _set(api, "\n".join(f"N{number}=1" for number in range(MAX_VARIABLES)))
    await api.expect((409, "conflict"), "PUT", _path(api, "/ONE_MORE"), {"value": ""})
    assert (await api.call("PATCH", _path(api), {"set": {"A": ""}, "unset": ["N0"]})).status == 200
    await _set(api, f"A={'x' * 100_000}\nB={'x' * 100_000}")
    refused = await api.expect((409, "conflict"), "PUT", _path(api, "/C"), {"value": "x" * 100_000})
    assert "262144" in refused.json()["detail"]


@pytest.mark.both_databases
async def test_concurrent_changes_of_different_variables_are_all_applied(api: Api) -> None:
    await _set(api, "KEPT=1")
    answers = await asyncio.gather(
        *(api.call("PUT", _path(api, f"/N{number}"), {"value": str(number)}) for number in range(20)),
        *(api.call("PATCH", _path(api), {"set": {f"P{number}": "x"}}) for number in range(5)),
    )
    assert {answer.status for answer in answers} == {200}
    assert sorted(answer.data["version"] for answer in answers)[-1] == 26
    numbered = {f"N{number}": str(number) for number in range(20)}
    assert await _values(api) == {"KEPT": "1", **numbered, **{f"P{number}": "x" for number in range(5)}}


@pytest.mark.both_databases
async def test_proposed_changes_of_different_variables_are_all_applied(api: Api) -> None:
    await _set(api, "KEPT=1\nGONE=1")
    people = ("deployer", "owner", "admin")
    changes = await asyncio.gather(
        *(_propose(api, {"set": {f"OF_{by.upper()}": "1"}}, by) for by in people),
        _propose(api, {"unset": ["GONE"]}),
    )
    assert await _values(api) == {"KEPT": "1", "GONE": "1"}
    seen = await api.read(_path(api))
    assert {
        (each["id"], each["asked_by"]["email"].partition("@")[0]) for each in seen["pending_changes"]
    } == {*zip(changes, (*people, "deployer"), strict=True)}
    outcomes = await asyncio.gather(*(_decide(api, change) for change in changes))
    assert {outcome["status"] for outcome in outcomes} == {"applied"}
    assert await _values(api) == {"KEPT": "1", "OF_DEPLOYER": "1", "OF_OWNER": "1", "OF_ADMIN": "1"}
    async with api.platform.sessions() as session:
        authors = (
            await session.execute(select(VariableSet.set_by_id).where(VariableSet.version > 1))
        ).scalars()
    ids = api.platform.acme.people
    assert set(authors) == {ids[by].id for by in people}


async def test_second_person_sees_and_decides_on_a_change(api: Api) -> None:
    await _set(api, "A=1\nB=1\nSAME=1")
    change = await _propose(api, {"set": {"A": "2", "N": "1", "SAME": "1"}, "unset": ["B", "NEVER"]})
    [shown] = (await api.read(_path(api), by="viewer"))["pending_changes"]
    assert shown["names"] == {"added": ["N"], "changed": ["A"], "removed": ["B"], "unprotected": []}
    assert (shown["id"], shown["kind"], shown["status"]) == (change, "update", "pending")
    assert (await _audited(api))[0][0] == "variables.propose"

    decided = await _decide(api, change)
    assert decided == {
        **shown,
        "status": "applied",
        "names": None,
        "decided_by": {**decided["decided_by"], "email": "maintainer@acme.example"},
        "decided_at": decided["decided_at"],
    }
    assert await _audited(api) == [("variables.approve", {"change": change, "reason": None})]
    seen = await api.read(_path(api))
    assert (seen["version"], seen["set_by"]["email"]) == (2, "deployer@acme.example")
    async with api.platform.sessions() as session:
        row = await session.get_one(VariableChange, change)
    assert (row.sealed, row.key_id) == (None, None)
    for decision in ("approve", "reject"):
        refused = await api.expect(
            (409, "conflict"), "POST", f"/v1/variable-changes/{change}/{decision}", {"reason": "no"}
        )
        assert f"Change {change} is applied" in refused.json()["detail"]


async def test_reject(api: Api) -> None:
    change = await _propose(api, {"set": {"A": "2"}})
    path = f"/v1/variable-changes/{change}/reject"
    for reason in ("", " ", "a\nb", "x" * 501, None):
        await api.expect((422, "validation-failed"), "POST", path, {"reason": reason})
    rejected = await api.call("POST", path, {"reason": "too late"}, by="admin")
    assert (rejected.data["status"], rejected.data["names"]) == ("rejected", None)
    assert await _audited(api) == [("variables.reject", {"change": change, "reason": "too late"})]
    async with api.platform.sessions() as session:
        row = await session.get_one(VariableChange, change)
    assert (row.sealed, row.key_id) == (None, None)
    seen = await api.read(_path(api))
    assert (seen["version"], seen["pending_changes"]) == (None, [])


async def test_requester_does_not_decide(api: Api) -> None:
    change = await _propose(api, {"set": {"A": "2"}}, by="maintainer")
    path = f"/v1/variable-changes/{change}/approve"
    refused = await api.expect((409, "second-person-required"), "POST", path, by="maintainer")
    assert "another person must decide" in refused.json()["detail"]
    for decision, body in (("approve", None), ("reject", {"reason": "no"})):
        path = f"/v1/variable-changes/{change}/{decision}"
        # The right is checked first. A change of another account is not found.
        await api.expect((403, "deploy-not-allowed"), "POST", path, body, by="deployer")
        other = await api.platform.call("POST", path, body, token=api.platform.other.token())
        assert other.problem == (404, "not-found")
    await api.expect((404, "not-found"), "POST", "/v1/variable-changes/999999/approve")
    await api.expect((404, "not-found"), "POST", "/v1/variable-changes/x/approve")


@pytest.mark.parametrize("by", ["deployer", "maintainer"])
async def test_requester_withdraws(api: Api, by: str) -> None:
    change = await _propose(api, {"set": {"A": "2"}}, by=by)
    path = f"/v1/variable-changes/{change}/reject"
    await api.expect((403, "deploy-not-allowed"), "POST", path, {"reason": "no"}, by="viewer")
    withdrawn = await api.call("POST", path, {"reason": "wrong value"}, by=by)
    assert withdrawn.data["status"] == "rejected"
    assert withdrawn.data["asked_by"] == withdrawn.data["decided_by"]
    assert (await api.read(_path(api)))["pending_changes"] == []
    await api.expect((409, "conflict"), "POST", path, {"reason": "no"}, by=by)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"set": {"A": "wrong", "B": "1"}}, {"set": {"A": "right"}}),
        ({"set": {"A": "wrong"}}, {"unset": ["A"]}),
        ({"unset": ["A"]}, {"set": {"C": "1", "A": "right"}}),
    ],
)
async def test_changes_of_one_variable_are_approved_in_their_order(
    api: Api, first: dict[str, Any], second: dict[str, Any]
) -> None:
    """The older change, approved last, would undo the newer one."""
    await _set(api, "A=0")
    older, other, newer = [await _propose(api, body) for body in (first, {"set": {"X": "1"}}, second)]
    refused = await api.expect((409, "conflict"), "POST", f"/v1/variable-changes/{newer}/approve")
    assert f"Change {older} is of A too" in refused.json()["detail"]
    await _decide(api, other)
    await _decide(api, older)
    await _decide(api, newer)
    wanted = {**first.get("set", {}), "X": "1", **second.get("set", {})}
    assert await _values(api) == {
        name: value for name, value in wanted.items() if name not in second.get("unset", [])
    }


async def test_change_is_approved_after_an_older_one_is_withdrawn(api: Api) -> None:
    older, newer = [await _propose(api, {"set": {"A": value}}) for value in ("wrong", "right")]
    await api.expect((409, "conflict"), "POST", f"/v1/variable-changes/{newer}/approve")
    path = f"/v1/variable-changes/{older}/reject"
    assert (await api.call("POST", path, {"reason": "wrong"}, by="deployer")).status == 200
    await _decide(api, newer)
    assert await _values(api) == {"A": "right"}


async def test_replacement_of_all_and_updates(api: Api) -> None:
    """An earlier proposal does not undo a later one."""
    await _set(api, "A=1\nB=1")
    older = await _propose(api, {"set": {"OLDER": "1"}})
    put = await api.platform.call(
        "PUT", _path(api), {"variables": "A=2"}, token=api.platform.acme.token("deployer")
    )
    replacement = put.data["change_id"]
    newer = await _propose(api, {"set": {"NEWER": "1"}})
    shown = (await api.read(_path(api)))["pending_changes"]
    assert [(each["id"], each["kind"]) for each in shown] == [
        (older, "update"),
        (replacement, "replace"),
        (newer, "update"),
    ]
    assert shown[1]["names"] == {"added": [], "changed": ["A"], "removed": ["B"], "unprotected": []}
    refused = await api.expect((409, "conflict"), "POST", f"/v1/variable-changes/{newer}/approve")
    assert f"Change {replacement} replaces all variables" in refused.json()["detail"]
    await _decide(api, replacement)
    await api.expect((409, "conflict"), "POST", f"/v1/variable-changes/{older}/approve")
    await _decide(api, newer)
    assert await _values(api) == {"A": "2", "NEWER": "1"}


async def test_changes_from_before_do_not_return_without_a_gate(api: Api) -> None:
    change = await _propose(api, {"set": {"A": "old"}})
    await api.platform.change(NAME, variables_need_approval=False)
    assert (await api.call("PUT", _path(api, "/A"), {"value": "new"})).status == 200
    refused = await api.expect((409, "conflict"), "POST", f"/v1/variable-changes/{change}/approve")
    assert "superseded" in refused.json()["detail"]


async def test_number_of_waiting_changes_is_limited(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "MAX_PENDING", 2)
    for _ in range(2):
        await _propose(api, {"set": {"A": "2"}})
    await api.expect((409, "conflict"), "PUT", _path(api, "/A"), {"value": "3"})
    # A replacement supersedes the earlier replacement.
    put = await api.platform.call("PUT", _path(api), {"variables": "A=2"})
    assert put.status == 202


async def test_protection(api: Api) -> None:
    await _set(api, "A=1")
    protected = await api.call("PUT", _path(api, "/A/protection"), by="deployer")
    assert protected.data["variables"] == [{"name": "A", "is_set": True, "protected": True}]
    ahead = await api.call("PUT", _path(api, "/LATER/protection"))
    assert ahead.data["variables"][1] == {"name": "LATER", "is_set": False, "protected": True}
    assert await _audited(api) == [("variables.protect", {"names": ["LATER"]})]
    before = await api.platform.contents()
    assert (await api.call("PUT", _path(api, "/A/protection"))).status == 200
    assert await api.platform.contents() == before
    removed = await api.call("DELETE", _path(api, "/LATER/protection"), by="deployer")
    assert (removed.status, [each["name"] for each in removed.data["variables"]]) == (200, ["A"])
    assert await _audited(api) == [("variables.unprotect", {"names": ["LATER"]})]
    await api.expect((404, "not-found"), "DELETE", _path(api, "/LATER/protection"))


async def test_number_of_protected_names_is_limited(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protection, "MAX_VARIABLES", 1)
    await api.call("PUT", _path(api, "/A/protection"))
    assert (await api.call("PUT", _path(api, "/A/protection"))).status == 200
    await api.expect((409, "conflict"), "PUT", _path(api, "/B/protection"))


@pytest.mark.parametrize("gate", ["deploys_need_approval", "variables_need_approval"])
async def test_one_person_cannot_remove_a_protection(api: Api, gate: str) -> None:
    await api.call("PUT", _path(api, "/A/protection"))
    await api.platform.change(NAME, **{gate: True})
    asked = await api.call("DELETE", _path(api, "/A/protection"), by="maintainer")
    assert asked.status == 202
    change = asked.data["change_id"]
    # A repeated request returns the same change, which the requester cannot approve.
    assert (await api.call("DELETE", _path(api, "/A/protection"), by="admin")).data["change_id"] == change
    path = f"/v1/variable-changes/{change}/approve"
    await api.expect((409, "second-person-required"), "POST", path, by="maintainer")
    [shown] = (await api.read(_path(api)))["pending_changes"]
    assert (shown["kind"], shown["names"]["unprotected"]) == ("unprotect", ["A"])
    assert (await api.read(_path(api)))["variables"][0]["protected"] is True
    await _decide(api, change, by="owner")
    assert (await api.read(_path(api)))["variables"] == []
    assert await _audited(api, 2) == [
        ("variables.approve", {"change": change, "reason": None}),
        (
            "variables.unprotect",
            {
                "names": ["A"],
                "lowered": ["the protection of variables"],
                "asked_by": "maintainer@acme.example",
                "approved_by": "owner@acme.example",
            },
        ),
    ]


async def test_not_live(api: Api) -> None:
    acme = api.platform.acme
    await _set(api, "A=1")
    async with api.platform.sessions() as session, session.begin():
        built = Release.deployment_id == acme.deployments["production"].id
        release = await session.execute(
            update(Release).where(built).values(workflow="{}").returning(Release.id)
        )
        row = {"environment_id": acme.environment(NAME).id, "release_id": release.scalar_one()}
        session.add(LiveRelease(**row, since=datetime.now(UTC)))
    assert (await api.read(_path(api)))["not_live"] is True


async def test_without_the_key(api: Api) -> None:
    """No data is lost, and no request gets an internal error."""
    await _set(api, "A=1")
    change = await _propose(api, {"set": {"A": "2"}})
    api.platform.app.state.variable_keys = SealingKeys([b"x" * 32])
    token = api.platform.acme.token("admin")
    for method, path, body in (
        ("GET", _path(api), None),
        ("PATCH", _path(api), {"set": {"A": "3"}}),
        ("DELETE", _path(api, "/A"), None),
        ("POST", f"/v1/variable-changes/{change}/approve", None),
    ):
        async with api.platform.http.request(
            method,
            f"{api.platform.url}/api{path}",
            json=body,
            headers={"Authorization": f"Bearer {token}"},
        ) as answer:
            assert (answer.status, (await answer.json())["type"]) == (503, "/problems/unavailable")
    api.platform.app.state.variable_keys = VARIABLE_KEYS
    await _decide(api, change)
    assert await _values(api) == {"A": "2"}


async def test_values_are_in_no_response_log_or_table(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    secret = "Zq9-unmistakable-secret-Zq9"
    answers = []
    with caplog.at_level(logging.DEBUG):
        answers.append(await api.call("PUT", _path(api, "/A"), {"value": secret}))
        answers.append(await api.call("PATCH", _path(api), {"set": {"B": secret, secret: secret}}))
        answers.append(await api.call("PATCH", _path(api), {"set": {"B": [secret]}}))
        await _propose(api, {"set": {"B": secret}})
        answers.append(await api.call("GET", _path(api)))
    told = b"".join(answer.body for answer in answers).decode() + caplog.text
    assert secret not in told and secret not in repr(await api.platform.contents())

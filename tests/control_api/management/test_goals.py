"""Goals of sites."""

from typing import Any

import pytest

from control_domain.sites import limits
from tests.control_api.management.conftest import Api
from tests.control_api.management.test_sites import shop


def goals_of(api: Api) -> str:
    return f"{shop(api.platform.acme)}/goals"


async def test_create_change_remove(api: Api) -> None:
    path = goals_of(api)
    made = [
        (await api.call("POST", path, body, by="deployer")).data
        for body in ({"event": " Signup "}, {"path": "/welcome", "name": "Welcome"}, {"path": "/paid"})
    ]
    assert [(goal["name"], goal["event"], goal["path"]) for goal in made] == [
        ("Signup", "Signup", None),
        ("Welcome", None, "/welcome"),
        ("/paid", None, "/paid"),
    ]
    assert await api.read_all(path) == made[::-1]
    one = f"{path}/{made[1]['id']}"
    changed = await api.call("PATCH", one, {"event": "Paid"}, by="deployer")
    assert changed.data == {**made[1], "event": "Paid", "path": None}
    renamed = await api.call("PATCH", one, {"name": "Purchase"})
    assert renamed.data == {**changed.data, "name": "Purchase"}
    before = await api.platform.contents()
    assert (await api.call("PATCH", one, {"event": "Paid", "path": None})).data == renamed.data
    assert await api.platform.contents() == before
    assert (await api.call("DELETE", one, by="deployer")).data == renamed.data
    await api.expect((404, "not-found"), "DELETE", one)
    await api.expect((404, "not-found"), "PATCH", one, {"name": "x"})
    subject = f"goal {made[1]['id']}"
    assert (await api.audit(4))[:3] == [
        ("goal.remove", subject),
        ("goal.set", subject),
        ("goal.set", subject),
    ]


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["event"]),
        ({"event": "a", "path": "/a"}, ["path"]),
        ({"event": " "}, ["event"]),
        ({"event": "a\nb"}, ["event"]),
        ({"event": "Web Vital"}, ["event"]),
        ({"event": "a" * 256}, ["event"]),
        ({"path": "welcome", "name": " "}, ["path", "name"]),
        ({"path": "/" + "a" * 2048}, ["path"]),
        ({"path": "/" + "a" * 100}, ["name"]),
    ],
)
async def test_invalid_goals(shared_api: Api, body: dict[str, Any], fields: list[str]) -> None:
    refused = await shared_api.expect((422, "validation-failed"), "POST", goals_of(shared_api), body)
    assert refused.fields == fields


@pytest.mark.both_databases
async def test_refused_goals(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    path = goals_of(api)
    first = (await api.call("POST", path, {"event": "Signup"})).data
    await api.expect((409, "name-taken"), "POST", path, {"path": "/signup", "name": "Signup"})
    second = (await api.call("POST", path, {"event": "Signup", "name": "The same event"})).data
    await api.expect((409, "name-taken"), "PATCH", f"{path}/{second['id']}", {"name": "Signup"})
    refused = await api.expect((422, "validation-failed"), "PATCH", f"{path}/{first['id']}", {"path": "x"})
    assert refused.fields == ["path"]
    other = api.platform.other
    foreign = await api.platform.call(
        "POST", f"{shop(other)}/goals", {"event": "Signup"}, token=other.token()
    )
    for number in (foreign.data["id"], "x", 0):
        await api.expect((404, "not-found"), "DELETE", f"{path}/{number}")
        await api.expect((404, "not-found"), "PATCH", f"{path}/{number}", {"name": "x"})
    monkeypatch.setattr(limits, "MAX_GOALS", 2)
    await api.expect((409, "conflict"), "POST", path, {"event": "Third"})

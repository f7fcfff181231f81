"""Notification rules: who may create them, and which recipients they may have."""

from typing import Any

import pytest
from sqlalchemy import select

from control_domain.tables.accounts import Person
from control_domain.tables.notifications import NotificationRule
from tests.control_api.management.conftest import Api

_PATH = "/v1/notification-rules"


def _rule(api: Api, **fields: Any) -> dict[str, Any]:
    recipients = [{"channel": api.platform.acme.notified["channel"]}]
    return {"name": "all", "recipients": recipients, **fields}


async def test_a_rule_of_a_project(monitored: Api) -> None:
    acme = monitored.platform.acme
    viewer = acme.people["viewer"]
    body = _rule(
        monitored,
        project=acme.projects["shop"].public_id,
        environment=str(acme.environment("shop/production").id),
        kinds=["deployment", "heartbeat.down", "deployment"],
        min_severity="warning",
        recipients=[{"channel": str(acme.notified["channel"])}, {"person": viewer.public_id}],
    )
    made = await monitored.call("POST", _PATH, body, by="maintainer")
    assert made.status == 201, made.body
    # Each kind appears once, in the order of the catalogue.
    assert made.data["kinds"] == ["deployment", "heartbeat.down"]
    assert [each["person"] and each["person"]["id"] for each in made.data["recipients"]] == [
        None,
        viewer.public_id,
    ]
    path = f"{_PATH}/{made.data['id']}"
    changed = await monitored.call("PATCH", path, {"environment": None, "kinds": None}, by="maintainer")
    assert (changed.data["environment"], changed.data["kinds"]) == (None, None)
    assert (changed.data["min_severity"], changed.data["project"]["slug"]) == ("warning", "shop")
    assert (await monitored.call("DELETE", path, by="maintainer")).status == 200
    assert [action for action, _ in await monitored.audit(3)] == [
        "notification-rule.remove",
        "notification-rule.set",
        "notification-rule.create",
    ]


async def test_who_may_create_rules(monitored: Api) -> None:
    acme = monitored.platform.acme
    shop, blog = acme.projects["shop"].public_id, acme.projects["blog"].public_id
    await monitored.expect((403, "not-allowed"), "POST", _PATH, _rule(monitored), by="maintainer")
    for person, project in (("maintainer", blog), ("deployer", shop), ("stranger", shop)):
        body = _rule(monitored, project=project)
        await monitored.expect((403, "deploy-not-allowed"), "POST", _PATH, body, by=person)
    foreign = monitored.platform.other.projects["shop"].public_id
    await monitored.expect((404, "not-found"), "POST", _PATH, _rule(monitored, project=foreign))
    made = await monitored.call("POST", _PATH, _rule(monitored), by="admin")
    path = f"{_PATH}/{made.data['id']}"
    # All members may read it, and only owners and admins may change it.
    assert (await monitored.read(path, by="stranger"))["name"] == "all"
    for method, body in (("PATCH", {"name": "mine"}), ("DELETE", None)):
        await monitored.expect((403, "not-allowed"), method, path, body, by="maintainer")


async def test_lists_have_what_the_caller_may_read(monitored: Api) -> None:
    acme = monitored.platform.acme
    blog = acme.projects["blog"].public_id
    await monitored.call("POST", _PATH, _rule(monitored))
    await monitored.call("POST", _PATH, _rule(monitored, name="blog", project=blog))

    async def names(by: str, query: str = "") -> set[str]:
        return {rule["name"] for rule in await monitored.read(f"{_PATH}{query}", by=by)}

    assert await names("owner") == {"all", "blog", "production"}
    assert await names("owner", f"?project={blog}") == {"blog"}
    assert await names("viewer") == {"all", "production"}
    assert await names("stranger") == {"all"}
    await monitored.expect((403, "deploy-not-allowed"), "GET", f"{_PATH}?project={blog}", by="viewer")


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"name": "\x07"}, ["name"]),
        ({"kinds": ["heartbeat.up", "deployments"]}, ["kinds[0]", "kinds[1]"]),
        ({"kinds": ["test.message"]}, ["kinds[0]"]),
        ({"kinds": []}, ["kinds"]),
        ({"min_severity": "fatal"}, ["min_severity"]),
        ({"recipients": [{}]}, ["recipients[0]"]),
        ({"recipients": [{"channel": 1, "person": 1}]}, ["recipients[0]"]),
        ({"recipients": [{"channel": 999}]}, ["recipients[0].channel"]),
        ({"recipients": [{"channel": "{foreign_channel}"}]}, ["recipients[0].channel"]),
        ({"recipients": [{"person": "{foreign_person}"}]}, ["recipients[0].person"]),
        # A person without access to the project does not see its rules.
        ({"project": "{shop}", "recipients": [{"person": "{stranger}"}]}, ["recipients[0].person"]),
        ({"environment": "{production}"}, ["environment"]),
        ({"project": "{blog}", "environment": "{production}"}, ["environment"]),
        ({"project": "{shop}", "environment": "{foreign_production}"}, ["environment"]),
    ],
)
async def test_refused_rules(shared_api: Api, fields: dict[str, Any], named: list[str]) -> None:
    acme, other = shared_api.platform.acme, shared_api.platform.other
    known = {
        "shop": acme.projects["shop"].public_id,
        "blog": acme.projects["blog"].public_id,
        "production": acme.environment("shop/production").public_id,
        "foreign_production": other.environment("shop/production").public_id,
        "stranger": acme.people["stranger"].public_id,
        "foreign_person": other.people["owner"].public_id,
        "foreign_channel": str(other.notified["channel"]),
    }

    def fill(value: Any) -> Any:
        if isinstance(value, str):
            return known.get(value.strip("{}"), value)
        if isinstance(value, list):
            return [fill(each) for each in value]
        return {name: fill(each) for name, each in value.items()} if isinstance(value, dict) else value

    body = _rule(shared_api, **fill(fields))
    refused = await shared_api.expect((422, "validation-failed"), "POST", _PATH, body)
    assert refused.fields == named


async def test_default_rule_applies_until_the_account_has_a_rule(api: Api) -> None:
    default = await api.read("/v1/default-notification-rule", by="stranger")
    assert default["applies"] is True
    assert [each["person"]["email"] for each in default["recipients"]] == ["owner@acme.example"]
    assert "heartbeat.down" in default["kinds"] and "heartbeat.late" not in default["kinds"]
    assert default["production_kinds"] == ["exception.new", "exception.regressed", "exception.spike"]
    for name, rule, applies in (
        # The recipients of a rule may have been removed, but notifications must still reach a person.
        ("nobody", {"recipients": []}, True),
        ("off", {"recipients": [], "enabled": False}, False),
    ):
        assert (await api.call("POST", _PATH, {"name": name, **rule})).status == 201
        assert (await api.read("/v1/default-notification-rule"))["applies"] is applies, name


async def test_default_rule_says_that_nobody_is_notified(api: Api) -> None:
    for email, unavailable, why in (
        ("owner@acme.example", {}, None),
        ("owner@acme.example", {"email": "none"}, "no e-mail. Set PHAROS_SMTP_URL, or make a rule."),
        ("owner@localhost", {}, "no owner has an e-mail address. Set PHAROS_OWNER_EMAIL, or make a rule."),
        ("owner@localhost", {"email": "none"}, "Set PHAROS_SMTP_URL and PHAROS_OWNER_EMAIL, or make a rule."),
    ):
        async with api.platform.sessions() as session, session.begin():
            owner = await session.get_one(Person, api.platform.acme.people["owner"].id)
            owner.email = email
        api.platform.app.state.unavailable_channels = unavailable
        default = await api.read("/v1/default-notification-rule")
        assert default["nobody"] is None if why is None else why in default["nobody"]
        assert [each["person"]["email"] for each in default["recipients"]] == (
            [] if email == "owner@localhost" else [email]
        )


@pytest.mark.both_databases
async def test_removed_people_and_projects_leave_rules(monitored: Api) -> None:
    acme = monitored.platform.acme
    leaver = acme.people["deployer"].public_id
    recipients = [{"person": leaver}, {"person": acme.people["owner"].public_id}]
    kept = (await monitored.call("POST", _PATH, _rule(monitored, recipients=recipients))).data["id"]
    assert (await monitored.call("DELETE", f"/v1/people/{leaver}")).status == 200
    rule = await monitored.read(f"{_PATH}/{kept}")
    assert [each["person"]["email"] for each in rule["recipients"]] == ["owner@acme.example"]
    project = (await monitored.call("POST", "/v1/projects", {"name": "Docs"})).data["id"]
    gone = (await monitored.call("POST", _PATH, _rule(monitored, name="docs", project=project))).data["id"]
    assert (await monitored.call("DELETE", f"/v1/projects/{project}")).status == 200
    async with monitored.platform.sessions() as session:
        numbers = (await session.scalars(select(NotificationRule.id))).all()
    assert kept in numbers and gone not in numbers

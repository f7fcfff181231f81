"""Reads of workflows and configurations."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from control_domain.configurations.addresses import PROJECT
from control_domain.configurations.plan import Action
from control_domain.sealing import SealingKeys
from control_domain.tables.configuration import Review
from control_domain.tables.workflows import Workflow
from pipeline_contracts.deploy_states import StepStatus
from tests.control_api.management.conftest import Api
from tests.support.deploy_platform import ALL_SCOPES
from tests.support.reviews import add_run
from tests.support.serve_control import VARIABLE_KEYS

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
TEXT = "version: 1\nprocesses:\n  web: {command: serve}  # one\n"


def _shop(api: Api, rest: str) -> str:
    return f"/v1/projects/{api.platform.acme.projects['shop'].public_id}/{rest}"


async def test_workflow(api: Api) -> None:
    path = _shop(api, "workflow")
    assert await api.read(path) is None
    assert (await api.call("PUT", path, {"workflow": TEXT}, by="deployer")).status == 200
    person = api.platform.acme.people["deployer"]
    shown = await api.read(path, by="viewer")
    assert shown.pop("set_at") is not None
    assert shown == {
        "version": 1,
        "text": TEXT,
        "document": {
            "version": 1,
            "build": {"steps": [], "timeout_seconds": 900},
            "release": {"steps": [], "timeout_seconds": 900},
            "processes": {"web": {"command": "serve"}},
            "triggers": {"push": {}},
            "retain": 5,
        },
        "fault": None,
        "set_by": {"id": person.public_id, "name": person.name, "email": person.email},
    }
    async with api.platform.sessions() as session, session.begin():
        project_id = api.platform.acme.projects["shop"].id
        session.add(
            Workflow(project_id=project_id, version=2, text="version: 9\n", set_by_id=None, created_at=NOW)
        )
    shown = await api.read(path)
    assert (shown["version"], shown["document"], shown["set_by"]) == (2, None, None)
    assert "line 1: version" in shown["fault"]


async def test_export(api: Api) -> None:
    variables = f"/v1/environments/{api.platform.acme.environment('shop/staging').public_id}/variables"
    assert (await api.call("PUT", variables, {"variables": "A=hunter2\n"})).status == 200
    shown = await api.read(_shop(api, "configuration"), by="viewer")
    assert shown["fault"] is None
    assert "keep: true" in shown["document"] and "hunter2" not in shown["document"]
    planned = await api.call(
        "POST", _shop(api, "configuration/plan"), {"document": shown["document"], "bindings": {}}
    )
    assert planned.data["summary"] == {"create": 0, "update": 0, "delete": 0}
    await api.platform.change("shop/staging", branch="a..b")
    assert "environments.staging.branch" in (await api.read(_shop(api, "configuration")))["fault"]


async def test_export_with_other_keys(api: Api) -> None:
    variables = f"/v1/environments/{api.platform.acme.environment('shop/staging').public_id}/variables"
    await api.call("PUT", variables, {"variables": "A=1\n"})
    api.platform.app.state.variable_keys = SealingKeys.read("another key of 32 characters or more")
    with pytest.raises(AssertionError, match="unavailable"):
        await api.platform.call("GET", _shop(api, "configuration"))


async def test_applications(api: Api) -> None:
    shop = api.platform.acme.projects["shop"]
    actions = [Action("update", PROJECT, ())] * 3
    statuses = [StepStatus.SUCCEEDED, StepStatus.FAILED, StepStatus.PENDING]
    async with api.platform.sessions() as session, session.begin():
        made, _ = await add_run(session, VARIABLE_KEYS, shop, actions, statuses, NOW)
    listed = await api.read_all(_shop(api, "configuration/applications"), limit=1)
    assert listed[0] == {
        "id": made.id,
        "review_id": made.review_id,
        "status": "failed",
        "created_at": "2026-11-20T12:00:00.000Z",
        "finished_at": None if made.finished_at is None else "2026-11-20T12:00:00.000Z",
        "counts": {"succeeded": 1, "failed": 1, "pending": 1},
    }
    assert [each["id"] for each in listed[1:]] == [api.platform.acme.reviewed["shop"].run]
    other = f"/v1/projects/{api.platform.acme.projects['blog'].public_id}/configuration/applications"
    assert [each["id"] for each in await api.read(other)] == [api.platform.acme.reviewed["blog"].run]


async def test_review(api: Api) -> None:
    number = api.platform.acme.reviewed["shop"].review
    path = _shop(api, f"configuration/reviews/{number}")

    async def expire_at(at: datetime) -> None:
        async with api.platform.sessions() as session, session.begin():
            await session.execute(update(Review).where(Review.id == number).values(expires_at=at))

    # The prepared database may be older than the lifetime of a review.
    await expire_at(datetime.now(UTC) + timedelta(minutes=1))
    shown = await api.read(path, by="viewer")
    assert (shown["id"], shown["status"]) == (number, "open")
    assert shown["plan"]["fingerprint"]
    await expire_at(datetime.now(UTC) - timedelta(seconds=1))
    assert (await api.read(path))["status"] == "expired"
    blog = api.platform.acme.reviewed["blog"].review
    for wrong in (blog, 0, "x", 2**31):
        gone = await api.call("GET", _shop(api, f"configuration/reviews/{wrong}"))
        assert gone.problem == (404, "not-found")


async def test_a_review_names_the_gates_that_it_lowers(api: Api) -> None:
    production = api.platform.acme.environment("shop/production").public_id
    await api.call("PATCH", f"/v1/environments/{production}", {"approval": {"deploys": True}})
    lowering = "version: 2\nenvironments: {production: {approval: {deploys: false}, replicas: 3}}"
    made = await api.call(
        "POST", _shop(api, "configuration/reviews"), {"document": lowering, "bindings": {}}, by="maintainer"
    )
    path = _shop(api, f"configuration/reviews/{made.data['id']}")
    shown = await api.read(path, by="viewer")
    assert shown["lowered_gates"] == ["the approval of deploys of environments.production"]
    assert shown["made_by"]["email"] == "maintainer@acme.example"
    await api.expect((403, "deploy-not-allowed"), "POST", f"{path}/apply", by="maintainer")
    applied = await api.call("POST", f"{path}/apply", by="owner")
    assert applied.status == 200, applied.body
    shown = await api.read(path)
    assert (shown["status"], shown["application_id"], shown["lowered_gates"]) == (
        "applied",
        applied.data["id"],
        [],
    )
    listed = await api.read_all(_shop(api, "configuration/reviews"))
    assert listed[0] == {name: shown[name] for name in listed[0]}


async def test_rules_and_thresholds_need_their_own_scope(api: Api) -> None:
    """A maintainer's token with the deploy scope can neither redirect nor mute notifications."""
    only_deploys = ALL_SCOPES - {"notifications:write"}
    threshold = "thresholds: {slow: {kind: service.latency, target: api, threshold: 800}}"
    for document, scopes, problem in (
        (
            "notifications: {rules: {mine: {people: [maintainer@acme.example]}}}",
            only_deploys,
            (403, "missing-scope"),
        ),
        (f"environments: {{production: {{{threshold}}}}}", only_deploys, (403, "missing-scope")),
        (f"environments: {{production: {{{threshold}}}}}", ALL_SCOPES, None),
        ("environments: {production: {replicas: 2}}", only_deploys, None),
    ):
        body = {"document": f"version: 2\n{document}", "bindings": {}}
        review = await api.call(
            "POST", _shop(api, "configuration/reviews"), body, by="maintainer", scopes=only_deploys
        )
        assert review.status == 201, review.body
        path = _shop(api, f"configuration/reviews/{review.data['id']}/apply")
        if problem is not None:
            await api.expect(problem, "POST", path, by="maintainer", scopes=scopes)
            continue
        applied = await api.call("POST", path, by="maintainer", scopes=scopes)
        assert applied.status == 200, applied.body
        if scopes is only_deploys:
            continue
        (step,) = applied.data["operations"]
        cancel = _shop(api, f"configuration/applications/{applied.data['id']}/operations/{step['id']}/cancel")
        await api.expect((403, "missing-scope"), "POST", cancel, by="maintainer", scopes=only_deploys)
        assert (await api.call("POST", cancel, by="maintainer")).status == 200

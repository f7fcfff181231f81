"""Deployments and changes that wait for a second person in an account."""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import update

from control_domain.sealing import SealingKeys
from control_domain.sign_in.links import create_link
from control_domain.tables.deployments import Deployment, Release
from control_domain.tables.sign_in import SignInLink
from tests.control_api.management.conftest import Api
from tests.support.deploy_platform import add_deployment

NOW = datetime.now(UTC)
NAME = "shop/production"
COMMIT = "c" * 40
WORKFLOW = "version: 1\nprocesses: {web: {command: python app.py}}\n"


def _path(api: Api, rest: str, name: str = NAME) -> str:
    return f"/v1/environments/{api.platform.acme.environment(name).public_id}/{rest}"


async def _deploy(api: Api, by: str = "deployer", name: str = NAME, **values: Any) -> int:
    await api.platform.change(name, deploys_need_approval=True)
    token = api.platform.acme.token(by)
    asked = await api.platform.call("POST", _path(api, "deploy", name), {"ref": "main"}, token=token)
    assert asked.status == 202, asked.body
    number: int = asked.data["id"]
    if values:
        async with api.platform.sessions() as session, session.begin():
            await session.execute(update(Deployment).where(Deployment.id == number).values(**values))
    return number


async def _propose(api: Api, name: str = NAME, by: str = "deployer") -> int:
    await api.platform.change(name, variables_need_approval=True)
    asked = await api.call("PUT", _path(api, "variables/A", name), {"value": "1"}, by=by)
    number: int = asked.data["change_id"]
    return number


def _ids(waiting: list[Any]) -> list[tuple[str, int]]:
    return [
        (
            each["kind"],
            each["variable_change"]["id"]
            if each["deployment"] is None
            else each["deployment"]["deployment"]["id"],
        )
        for each in waiting
    ]


async def test_everything_that_an_approval_covers(api: Api) -> None:
    acme = api.platform.acme
    await api.call("PUT", _path(api, "variables/A"), {"value": "1"}, by="deployer")
    commit = {"revision": COMMIT, "commit_subject": "Fix it", "commit_author": "Eve"}
    number = await _deploy(api, **commit)
    workflow = f"/v1/projects/{acme.projects['shop'].public_id}/workflow"
    token = acme.token("deployer")
    assert (await api.platform.call("PUT", workflow, {"workflow": WORKFLOW}, token=token)).status == 200
    [waiting] = await api.read("/v1/approvals", by="maintainer")
    deployer = acme.people["deployer"]
    person = {"id": deployer.public_id, "name": deployer.name, "email": deployer.email}
    shown = waiting["deployment"]
    assert (waiting["kind"], waiting["can_decide"], waiting["variable_change"]) == ("deployment", True, None)
    assert shown["deployment"].items() >= {"id": number, "asked_by": person, **commit}.items()
    assert {name: shown[name] for name in shown if name != "deployment"} == {
        "repository_url": "https://git.acme.example/shop.git",
        "commit_fault": None,
        "new_commits": None,
        "variables": {"version": 1, "set_at": shown["variables"]["set_at"], "set_by": person},
        "workflow": {
            "version": 1,
            "set_at": shown["workflow"]["set_at"],
            "set_by": person,
            "release_of": None,
            "sha256": hashlib.sha256(WORKFLOW.encode()).hexdigest(),
            "text": WORKFLOW,
        },
        "digest": shown["digest"],
        "changed_since_asked": ["workflow"],
        "needs_digest": True,
    }
    path = f"/v1/deployments/{number}/approve"
    approved = await api.call("POST", path, {"digest": shown["digest"]}, by="maintainer")
    assert approved.data["commit_subject"] == "Fix it"
    assert await api.read("/v1/approvals") == []


async def test_unknown_commit_and_unknown_inputs(api: Api) -> None:
    await _deploy(api, commit_fault="The host did not answer.", frozen_at=None)
    [waiting] = await api.read("/v1/approvals")
    shown = waiting["deployment"]
    assert (shown["digest"], shown["commit_fault"]) == (None, "The host did not answer.")
    assert (shown["changed_since_asked"], shown["needs_digest"]) == (None, True)
    assert (shown["variables"], shown["workflow"]) == (None, None)


async def test_promotion_shows_the_workflow_of_its_release(api: Api) -> None:
    acme = api.platform.acme
    source = acme.deployments["staging"].id
    async with api.platform.sessions() as session, session.begin():
        await session.execute(update(Release).where(Release.deployment_id == source).values(workflow="{}"))
    await api.platform.change(NAME, deploys_need_approval=True)
    body = {"target_environment_id": acme.environment(NAME).public_id}
    promoted = await api.platform.call("POST", f"/v1/deployments/{source}/promote", body)
    assert promoted.status == 202
    [waiting] = await api.read("/v1/approvals")
    workflow = waiting["deployment"]["workflow"]
    assert (workflow["release_of"], workflow["text"], workflow["version"]) == (source, "{}", None)


async def _in_overview(api: Api, by: str) -> list[bool]:
    """Return `can_decide` of the waiting items in the order of the overview: deployments first, each kind from the
    newest."""
    items = (await api.read("/v1/overview", by=by))["attention"]["items"]
    waiting = [item for item in items if item["can_decide"] is not None]
    waiting.sort(key=lambda item: (item["target"]["type"], -int(item["target"]["id"])))
    return [item["can_decide"] for item in waiting]


async def test_who_sees_and_who_decides(api: Api) -> None:
    in_shop = await _deploy(api, by="maintainer")
    change = await _propose(api, by="deployer")
    async with api.platform.sessions() as session, session.begin():
        # Only owners and admins have a role in the other project, which has no repository.
        made = await add_deployment(session, api.platform.acme, NAME, NOW, status="awaiting_approval")
        made.project_id = api.platform.acme.projects["blog"].id
        made.environment_id = api.platform.acme.environment("blog/production").id
    all_of_them = [("deployment", made.id), ("deployment", in_shop), ("variable_change", change)]
    for by, expected in (
        ("admin", [True, True, True]),
        # The owner has requested the deployment in the other project.
        ("owner", [False, True, True]),
        ("maintainer", [None, False, True]),
        ("deployer", [None, False, False]),
        ("viewer", [None, False, False]),
        ("stranger", [None, None, None]),
    ):
        waiting = await api.read("/v1/approvals", by=by)
        assert _ids(waiting) == [
            each for each, seen in zip(all_of_them, expected, strict=True) if seen is not None
        ]
        assert [each["can_decide"] for each in waiting] == [seen for seen in expected if seen is not None]
        assert await _in_overview(api, by) == [each["can_decide"] for each in waiting]
    other = await api.platform.call("GET", "/v1/approvals", token=api.platform.other.token())
    assert other.data == []


async def test_pages_while_other_approvals_are_requested(api: Api) -> None:
    deployments = [await _deploy(api) for _ in range(3)]
    changes = [await _propose(api) for _ in range(3)]
    first = await api.call("GET", "/v1/approvals?limit=2")
    await _deploy(api)
    newest_change = await _propose(api)
    waiting, cursor = first.data, first.json()["next_cursor"]
    while cursor is not None:
        page = (await api.call("GET", f"/v1/approvals?limit=2&cursor={cursor}")).json()
        waiting += page["data"]
        cursor = page["next_cursor"]
    assert _ids(waiting) == [
        *(("deployment", number) for number in deployments[::-1]),
        *(("variable_change", number) for number in [newest_change, *changes[::-1]]),
    ]
    for limit in (1, 3, 4, 7, 8):
        assert len(await api.read_all("/v1/approvals", limit)) == 8
    # A cursor belongs to one person.
    cursor = first.json()["next_cursor"]
    assert (await api.call("GET", f"/v1/approvals?cursor={cursor}", by="admin")).fields == ["cursor"]


async def test_changes_that_cannot_be_opened(api: Api) -> None:
    change = await _propose(api)
    api.platform.app.state.variable_keys = SealingKeys([b"x" * 32])
    [waiting] = await api.read("/v1/approvals")
    assert (waiting["variable_change"]["id"], waiting["variable_change"]["names"]) == (change, None)


async def test_creator_of_a_sign_in_link_is_not_a_second_person(api: Api) -> None:
    """The creator of a sign-in link can act as its person. So neither of the two decides on requests of the other."""
    people = api.platform.acme.people

    async def use_link(person: str, maker: str | None, used_at: datetime) -> None:
        by = None if maker is None else people[maker].id
        async with api.platform.sessions() as session, session.begin():
            await create_link(session, people[person], by, NOW)
            unused = update(SignInLink).where(SignInLink.used_at.is_(None))
            await session.execute(unused.values(used_at=used_at))

    async def decide(number: int, change: int, by: str) -> list[tuple[int, str]]:
        body = {"revision": COMMIT}
        answers = [
            await api.call("POST", f"/v1/deployments/{number}/approve", body, by=by),
            await api.call("POST", f"/v1/variable-changes/{change}/approve", by=by),
        ]
        waiting = await api.read("/v1/approvals", by=by)
        assert [each["can_decide"] for each in waiting] == [each.status == 200 for each in answers]
        assert await _in_overview(api, by) == [each["can_decide"] for each in waiting]
        return [(each.status, each.problem[1]) for each in answers]

    refused = [(409, "second-person-required")] * 2
    number, change = await _deploy(api, by="admin", revision=COMMIT), await _propose(api, by="admin")
    hour = timedelta(hours=1)
    await use_link("maintainer", "admin", NOW - 5 * hour)
    assert await decide(number, change, "maintainer") == refused
    # The same holds through a third person, and in the other direction.
    await use_link("owner", "maintainer", NOW - 4 * hour)
    assert await decide(number, change, "owner") == refused
    mine = await _propose(api, by="maintainer", name="shop/staging")
    approve = f"/v1/variable-changes/{mine}/approve"
    await api.expect(refused[0], "POST", approve, by="admin")
    # A link of another person or of an operator lifts the restriction, and so does time.
    await use_link("maintainer", None, NOW - 3 * hour)
    assert (await api.call("POST", approve, by="admin")).status == 200
    assert all(each["can_decide"] for each in await api.read("/v1/approvals", by="owner"))
    await use_link("owner", "admin", NOW - timedelta(days=7))
    assert all(each["can_decide"] for each in await api.read("/v1/approvals", by="owner"))

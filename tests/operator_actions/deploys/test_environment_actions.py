"""Environments as an operator handles them, by the names of the actions, on both databases."""

import asyncio
from typing import Any

import pytest

from control_domain.projects.operations import create_project
from control_domain.refusals import Refused
from control_domain.tables.deployments import LiveRelease, Release
from control_domain.tables.projects import Environment, EnvironmentLock, IngestKey
from pipeline_contracts.errors import EnvironmentLocked, OutsideWindow
from tests.support.managed_project import NOW, REVISION, ManagedProject

AT = "2026-11-18T12:00:00.000Z"


async def test_an_environment_is_made_without_a_key(managed: ManagedProject) -> None:
    told = await managed.act("environments/create", name=" Staging Öst ", type="staging", branch="develop")
    assert told == {
        "id": told["id"],
        "name": "Staging Öst",
        "slug": "staging-ost",
        "type": "staging",
        "desired_replicas": 1,
        "state": "running",
        "number": told["number"],
        "project": {"id": managed.project.public_id, "name": "Shop", "slug": "shop"},
        "order": 2,
        "branch": "develop",
        "window": None,
        "approval": {"deploys": False, "variables": False},
        "wake_on_request": False,
        "lock": None,
        "created_at": AT,
    }
    assert told["id"].startswith("env_")
    assert await managed.count(IngestKey) == 0
    details = {
        "project": managed.project.public_id,
        "name": "Staging Öst",
        "slug": "staging-ost",
        "type": "staging",
    }
    entry = ("environment.create", f"environment {told['id']}", None, "operator kim", details)
    assert await managed.read_audit_log() == [entry]


async def test_order_and_slug_can_be_given(managed: ManagedProject) -> None:
    told = await managed.act("environments/create", name="PR 7", type="preview", slug="pr-7", order=5)
    assert (told["slug"], told["order"]) == ("pr-7", 5)
    (first, second) = await managed.act("environments/list")
    assert [first["slug"], second["slug"]] == ["production", "pr-7"]


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"name": ""}, "A name has 1 to 100 printable characters"),
        ({"name": "a\x1b[31m"}, "A name has 1 to 100 printable characters"),
        ({"name": "東京"}, "No slug can be made from '東京'"),
        ({"slug": "7"}, "'7' is no slug"),
        ({"slug": "a--b"}, "'a--b' is no slug"),
        ({"type": "test"}, "The type is one of preview, development, staging, production"),
        ({"order": -1}, "The order is a whole number from 0 to 1000."),
        ({"order": 1001}, "The order is a whole number from 0 to 1000."),
        ({"branch": "-x"}, "'-x' is no name of a branch that Git allows"),
        ({"branch": "a..b"}, "'a..b' is no name of a branch that Git allows"),
        ({"project_id": "prj_0nobody"}, "There is no project prj_0nobody"),
        ({"name": "Production"}, "has an environment with the slug 'production' already; choose another"),
    ],
    ids=str,
)
async def test_invalid_environments_are_refused(
    managed: ManagedProject, wanted: dict[str, Any], told: str
) -> None:
    line = await managed.expect_refusal("environments/create", **{"name": "New", "type": "staging", **wanted})
    assert told in line
    assert await managed.count(Environment) == 1


@pytest.mark.both_databases
async def test_the_same_slug_in_another_project(managed: ManagedProject) -> None:
    async with managed.engines.sessions() as session, session.begin():
        blog = await create_project(session, managed.account, "Blog", "blog", NOW)
    assert "There are several projects" in await managed.expect_refusal(
        "environments/create", name="Production", type="production"
    )
    made = await managed.act("environments/create", name="Production", type="production", project_id="blog")
    assert made["project"]["id"] == blog.public_id
    assert "Several environments are called 'production'" in await managed.expect_refusal(
        "environments/scale", id="production", replicas=2
    )
    for called in (made["id"], str(made["number"]), "blog/production"):
        assert (await managed.act("environments/show", id=called))["id"] == made["id"]
    listed = await managed.act("environments/list", project_id="blog")
    assert [one["id"] for one in listed] == [made["id"]]
    assert len(await managed.act("environments/list")) == 2


async def test_all_of_an_environment_is_shown(managed: ManagedProject) -> None:
    shown = await managed.act("environments/show", id="production")
    assert {name: shown[name] for name in ("live", "variables", "active_deployment", "lock", "window")} == {
        "live": None,
        "variables": None,
        "active_deployment": None,
        "lock": None,
        "window": None,
    }
    assert shown["awaiting_approval"] == {"deployments": [], "variable_change": None}
    await managed.act("variables/set", environment_id="production", text="A=1\nB=2\n")
    await managed.act("variables/set", environment_id="production", text="A=1\nB=2\nC=3\n")
    window = "mon-thu 09:00-16:00 Europe/Oslo"
    wanted = {"window": window, "deploy_approval": True, "variable_approval": True, "branch": "live"}
    await managed.act("environments/set", id="production", **wanted)
    first, second = await managed.queue(), await managed.queue()
    await managed.change_environment(deploys_need_approval=False)
    active = await managed.queue()
    await managed.change_environment(deploys_need_approval=True)
    change = await managed.act("variables/set", environment_id="production", text="", by="owner@acme.example")
    await managed.act("environments/lock", id="production", reason="sale", by="deployer@acme.example")
    async with managed.engines.sessions() as session, session.begin():
        release = Release(
            environment_id=managed.environment.id,
            deployment_id=active,
            revision=REVISION,
            artefact="releases/1",
            created_at=NOW,
        )
        session.add(release)
        await session.flush()
        session.add(LiveRelease(environment_id=managed.environment.id, release_id=release.id, since=NOW))
    shown = await managed.act("environments/show", id="production")
    assert shown["live"] == {"deployment_id": active, "revision": REVISION, "since": AT}
    assert shown["variables"] == {"version": 2, "count": 3}
    assert shown["active_deployment"] == {"id": active, "status": "queued"}
    assert shown["awaiting_approval"] == {
        "deployments": [second, first],
        "variable_change": change["change_id"],
    }
    assert shown["lock"] == {"reason": "sale", "by": "deployer@acme.example", "since": AT}
    assert shown["window"] == "mon,tue,wed,thu 09:00-16:00 Europe/Oslo"
    assert (shown["approval"], shown["branch"]) == ({"deploys": True, "variables": True}, "live")
    (listed,) = await managed.act("environments/list")
    assert listed == {name: value for name, value in shown.items() if name in listed}


async def test_settings_are_changed_and_what_changed_is_written_down(managed: ManagedProject) -> None:
    wanted = {"name": "Live", "branch": "live", "order": 7, "window": "sat,sun 22:00-02:00"}
    told = await managed.act("environments/set", id="production", **wanted, deploy_approval=True)
    assert (told["name"], told["branch"], told["order"]) == ("Live", "live", 7)
    assert (told["window"], told["approval"]["deploys"]) == ("sat,sun 22:00-02:00 UTC", True)
    # Reported only when the gate is turned on.
    assert told.pop("gated_previews") == []
    ((action, subject, person, source, details),) = await managed.read_audit_log()
    assert (action, person, source) == ("environment.set", None, "operator kim")
    assert subject == f"environment {managed.environment.public_id}"
    assert details["name"] == {"from": "Production", "to": "Live"}
    assert details["window"] == {"from": None, "to": "sat,sun 22:00-02:00 UTC"}
    assert details["approval"]["to"] == {"deploys": True, "variables": False}
    assert set(details) == {"name", "branch", "order", "window", "approval"}
    again = await managed.act("environments/set", id="production", **wanted, deploy_approval=True)
    assert again == told and len(await managed.read_audit_log()) == 1
    agreed = {"by": "deployer@acme.example", "approved_by": "maintainer@acme.example"}
    told = await managed.act("environments/set", id="production", branch=None, window=None, **agreed)
    assert (told["branch"], told["window"], told["name"]) == (None, None, "Live")


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({}, "Say what to change: `pharos environment set --help`"),
        ({"name": " "}, "A name has 1 to 100 printable characters"),
        ({"branch": "a b"}, "'a b' is no name of a branch"),
        ({"order": 2**31}, "The order is a whole number"),
        ({"window": "weekdays 9-5"}, "'weekdays 9-5' is no window"),
        ({"window": "mon 09:00-16:00 Mars"}, "'Mars' is no time zone"),
        ({"window": "mon 24:00-25:00"}, "Times of a window look like 09:00."),
        ({"window": ""}, "A window looks like 'mon-thu 09:00-16:00 Europe/Oslo'."),
    ],
    ids=str,
)
async def test_invalid_settings_are_refused(
    managed: ManagedProject, wanted: dict[str, Any], told: str
) -> None:
    assert told in await managed.expect_refusal("environments/set", id="production", **wanted)


async def test_settings_apply_to_deploys(managed: ManagedProject) -> None:
    await managed.act("environments/set", id="production", window="thu-fri 09:00-16:00 Europe/Oslo")
    with pytest.raises(OutsideWindow):
        await managed.queue()
    await managed.act("environments/set", id="production", window=None)
    await managed.act("environments/lock", id="production", reason="sale")
    with pytest.raises(EnvironmentLocked, match="is locked by an operator: sale"):
        await managed.queue()
    await managed.act("environments/unlock", id="production")
    await managed.queue()


async def test_replicas_and_state(managed: ManagedProject) -> None:
    assert (await managed.act("environments/scale", id="production", replicas=20))["desired_replicas"] == 20
    for replicas in (0, 21, "3", None):
        line = await managed.expect_refusal("environments/scale", id="production", replicas=replicas)
        assert line == "The number of replicas is 1 to 20."
    told = await managed.act("environments/state", id="production", state="hibernated")
    assert told["state"] == "hibernated"
    # What it is already changes nothing.
    await managed.act("environments/state", id="production", state="hibernated")
    assert (await managed.act("environments/state", id="production", state="running"))["state"] == "running"
    assert [(entry[0], entry[4]) for entry in await managed.read_audit_log()] == [
        ("environment.state", {"from": "hibernated", "to": "running"}),
        ("environment.state", {"from": "running", "to": "hibernated"}),
        ("environment.scale", {"from": 1, "to": 20}),
    ]


async def test_a_lock_shows_its_owner_and_reason(managed: ManagedProject) -> None:
    deployer, name = managed.people["deployer"], managed.environment.public_id
    told = await managed.act("environments/lock", id="production", reason=" sale ", by=deployer.email)
    assert told["lock"] == {"reason": "sale", "by": deployer.email, "since": AT}
    entry = ("environment.lock", f"environment {name}", deployer.email, "operator kim", {"reason": "sale"})
    assert await managed.read_audit_log() == [entry]
    number = managed.environment.id
    line = await managed.expect_refusal("environments/lock", id="production", reason="mine")
    assert line == (
        "Environment shop/production is locked already, by deployer@acme.example since 2026-11-18 12:00 UTC: sale; "
        f"`pharos unlock {number}` ends that."
    )
    told = await managed.act("environments/unlock", id="production")
    assert (told["lock"], told["was"]) == (None, {"reason": "sale", "by": deployer.email, "since": AT})
    entry = (
        "environment.unlock",
        f"environment {name}",
        None,
        "operator kim",
        {"reason": "sale", "by": deployer.email},
    )
    assert (await managed.read_audit_log())[0] == entry
    assert (await managed.act("environments/unlock", id="production"))["was"] is None
    assert len(await managed.read_audit_log()) == 2


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"reason": " "}, "A reason has 1 to 500 printable characters: give one with --reason."),
        ({"reason": "x" * 501}, "A reason has 1 to 500 printable characters"),
        ({"reason": "a\nb"}, "A reason has 1 to 500 printable characters"),
        ({"by": "nobody@acme.example"}, "There is no person 'nobody@acme.example'"),
        (
            {"by": "viewer@acme.example"},
            "viewer@acme.example may not deploy in the project shop: name somebody else",
        ),
        ({"by": "stranger@acme.example"}, "stranger@acme.example may not deploy in the project shop"),
        ({"by": "outsider@other.example"}, "outsider@other.example may not deploy in the project shop"),
        ({"id": "nowhere"}, "There is no environment nowhere; `pharos environment list` shows all."),
    ],
    ids=str,
)
async def test_invalid_locks_are_refused(managed: ManagedProject, wanted: dict[str, Any], told: str) -> None:
    line = await managed.expect_refusal(
        "environments/lock", **{"id": "production", "reason": "sale", **wanted}
    )
    assert told in line
    assert await managed.count(EnvironmentLock) == 0


@pytest.mark.both_databases
async def test_of_ten_concurrent_locks_one_succeeds(managed: ManagedProject) -> None:
    told = await asyncio.gather(
        *(managed.act("environments/lock", id="production", reason=f"reason {n}") for n in range(10)),
        return_exceptions=True,
    )
    (held,) = [one for one in told if not isinstance(one, BaseException)]
    refused = [one for one in told if isinstance(one, Refused)]
    assert len(refused) == 9
    assert all(
        f"is locked already, by an operator since 2026-11-18 12:00 UTC: {held['lock']['reason']}" in str(one)
        for one in refused
    )
    assert [entry[0] for entry in await managed.read_audit_log()] == ["environment.lock"]


@pytest.mark.both_databases
async def test_of_ten_concurrent_unlocks_one_succeeds(managed: ManagedProject) -> None:
    await managed.act("environments/lock", id="production", reason="sale")
    told = await asyncio.gather(*(managed.act("environments/unlock", id="production") for _ in range(10)))
    assert len([one for one in told if one["was"] is not None]) == 1
    assert [entry[0] for entry in await managed.read_audit_log()] == [
        "environment.unlock",
        "environment.lock",
    ]

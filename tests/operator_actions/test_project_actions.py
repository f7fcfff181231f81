"""Projects as an operator handles them, by the names of the actions, on both databases."""

import asyncio

import pytest
from sqlalchemy import select

from control_domain.audit import Actor
from control_domain.database.engine import Sessions
from control_domain.projects.find import DeployTarget
from control_domain.projects.operations import create_environment
from control_domain.removals.remove_environment import remove_environment
from control_domain.repositories.operations import connect_repository, disconnect_repository
from control_domain.tables.deployments import Deployment, DeploymentLine
from control_domain.tables.projects import Environment, Project, ProjectRole
from control_domain.tables.repositories import Repository
from control_domain.tables.webhooks import SealedWebhookSecret, WaitingPush, WebhookDelivery
from pipeline_contracts.times import format_time
from tests.support.operator import NOW, Operator, make_operator

_ROUNDS = 10


@pytest.fixture
async def operator(sessions: Sessions) -> Operator:
    """With an account "beta" and its owner."""
    made = make_operator(sessions)
    await made.act("accounts/create", name="Beta", owner_name="Olga", owner_email="owner@example.com")
    return made


async def add_deployments(operator: Operator, project_id: str) -> None:
    """What is left of a project that was deployed: a first repository and the present one, and deployments that refer
    to each other, of environments that are gone."""
    async with operator.engines.sessions() as session, session.begin():
        query = select(Project).where(Project.public_id == project_id)
        project = (await session.execute(query)).scalar_one()
        first = await connect_repository(session, project.id, "git", "/srv/old.git", "main", NOW)
        await disconnect_repository(session, first, NOW)
        second = await connect_repository(session, project.id, "git", "/srv/new.git", "main", NOW)
        made: list[Deployment] = []
        for number in range(6):
            deployment = Deployment(
                account_id=project.account_id,
                project_id=project.id,
                repository_id=(first if number < 3 else second).id,
                status="succeeded",
                trigger="api",
                needs_approval=False,
                created_at=NOW,
                promoted_from_id=made[-1].id if number % 2 else None,
                rolled_back_to_id=made[0].id if number == 4 else None,
            )
            session.add(deployment)
            await session.flush()
            made.append(deployment)
            session.add_all(
                DeploymentLine(
                    deployment_id=deployment.id, at=format_time(NOW), stream="stdout", text=f"line {line}"
                )
                for line in range(3)
            )


@pytest.mark.both_databases
async def test_a_project_is_made_listed_and_shown(operator: Operator) -> None:
    told = await operator.act("projects/create", name="My Shop")
    account = {"id": told["account"]["id"], "name": "Beta", "slug": "beta"}
    assert told == {
        "id": told["id"],
        "name": "My Shop",
        "slug": "my-shop",
        "environments": [],
        "number": told["number"],
        "account": account,
        "created_at": "2026-11-20T12:00:00.000Z",
    }
    assert await operator.act("projects/list") == [told]
    for called in (None, "my-shop", told["id"], str(told["number"])):
        shown = await operator.act("projects/show", id=called)
        assert shown == {**told, "repository": None, "sites": [], "people": []}
    assert (await operator.read_audit_log())[1:] == [("project.create", f"project {told['id']}")]


async def test_a_project_is_shown_with_all_that_it_has(operator: Operator) -> None:
    made = await operator.act("projects/create", name="Shop")
    async with operator.engines.sessions() as session, session.begin():
        project = (await session.execute(select(Project))).scalar_one()
        for name, type_ in (("Production", "production"), ("Staging", "staging")):
            await create_environment(session, project, name, name.lower(), type_, NOW)
        await connect_repository(session, project.id, "git", "/srv/shop.git", "main", NOW)
    await operator.act("people/add", email="eve@example.com", name="Eve")
    await operator.act("projects/grant", id="shop", email="eve@example.com", role="viewer")
    site = await operator.objects.add_site("shop.example", "https://shop.example")
    shown = await operator.act("projects/show", id="shop")
    assert [one["slug"] for one in shown["environments"]] == ["staging", "production"]
    assert (shown["repository"]["url"], shown["repository"]["branch"]) == ("/srv/shop.git", "main")
    assert shown["sites"] == [{"id": site.id, "name": "shop.example", "tracker_id": site.public_id}]
    (person,) = shown["people"]
    assert (person["email"], person["role"]) == ("eve@example.com", "viewer")
    (listed,) = await operator.act("projects/list", account_id="beta")
    assert (listed["id"], listed["environments"]) == (made["id"], shown["environments"])


@pytest.mark.both_databases
async def test_slugs_are_unique_in_an_account(operator: Operator) -> None:
    await operator.act("projects/create", name="Shop")
    told = await operator.expect_refusal("projects/create", name="Other", slug="shop")
    assert told == "The account has a project of the slug 'shop' already: choose another with --slug."
    await operator.act("accounts/create", name="Gamma", owner_name="Gil", owner_email="gil@example.com")
    assert "There are several accounts: name one by its ID" in await operator.expect_refusal(
        "projects/create", name="Shop"
    )
    other = await operator.act("projects/create", name="Shop", account_id="gamma")
    assert [one["id"] for one in await operator.act("projects/list", account_id="gamma")] == [other["id"]]
    assert len(await operator.act("projects/list")) == 2
    assert "Several projects are called 'shop': name one by its ID" in await operator.expect_refusal(
        "projects/show", id="shop"
    )
    assert "give one of 1 to 60 of a-z" in await operator.expect_refusal(
        "projects/create", name="Shop", slug="SHOP", account_id="beta"
    )


@pytest.mark.both_databases
async def test_roles_are_granted_and_revoked(operator: Operator) -> None:
    made = await operator.act("projects/create", name="Shop")
    eve = await operator.act("people/add", email="eve@example.com", name="Eve")
    told = await operator.act("projects/grant", id="shop", email="Eve@example.com", role="viewer")
    named = {"id": made["id"], "name": "Shop", "slug": "shop"}
    person = {name: eve[name] for name in ("id", "name", "email")}
    assert told == {**named, "person": person, "role": "viewer"}
    await operator.act("projects/grant", id="shop", email="eve@example.com", role="maintainer")
    # The same once more is nothing new.
    await operator.act("projects/grant", id="shop", email="eve@example.com", role="maintainer")
    (shown,) = (await operator.act("projects/show"))["people"]
    assert shown["role"] == "maintainer"
    told = await operator.act("projects/revoke", id="shop", email="eve@example.com")
    assert told == {**named, "person": person, "role": None}
    assert await operator.expect_refusal("projects/revoke", id="shop", email="eve@example.com") == (
        "eve@example.com has no role in the project shop: `pharos project show shop` lists who has."
    )
    entries = await operator.act("audit/list", subject=made["id"])
    assert [(one["action"], one["details"]) for one in reversed(entries)] == [
        ("project.create", {"slug": "shop"}),
        ("project.grant", {"person": eve["id"], "from": None, "to": "viewer"}),
        ("project.grant", {"person": eve["id"], "from": "viewer", "to": "maintainer"}),
        ("project.revoke", {"person": eve["id"], "from": "maintainer"}),
    ]


async def test_owners_and_admins_need_no_role(operator: Operator) -> None:
    await operator.act("projects/create", name="Shop")
    told = await operator.act("projects/grant", id="shop", email="owner@example.com", role="viewer")
    assert told["warning"] == "owner@example.com is owner of the account and may do everything in it anyway."


async def test_invalid_roles_are_refused(operator: Operator) -> None:
    await operator.act("projects/create", name="Shop")
    await operator.act("accounts/create", name="Gamma", owner_name="Gil", owner_email="gil@example.com")
    for wanted, told in (
        (
            {"email": "gil@example.com"},
            "gil@example.com is not in the account beta: add them with "
            "`pharos person add gil@example.com --account beta`.",
        ),
        (
            {"email": "eve@example.com"},
            "There is no person 'eve@example.com'; `pharos person list` shows all.",
        ),
        ({"role": "owner"}, "'owner' is no role in a project: choose one of viewer, deployer, maintainer."),
        ({"id": "blog"}, "There is no project blog; `pharos project list` shows all."),
    ):
        full = {"id": "shop", "email": "owner@example.com", "role": "viewer", **wanted}
        assert await operator.expect_refusal("projects/grant", **full) == told
    assert await operator.count(ProjectRole) == 0


@pytest.mark.both_databases
async def test_a_project_is_removed_with_its_deployments(operator: Operator) -> None:
    """And nothing of another one."""
    await operator.act("people/add", email="eve@example.com", name="Eve")
    made = {}
    for name in ("Shop", "Blog"):
        made[name] = await operator.act("projects/create", name=name)
        await add_deployments(operator, made[name]["id"])
        await operator.act("projects/grant", id=name.lower(), email="eve@example.com", role="viewer")
    told = await operator.act("projects/remove", id="shop")
    assert told == {
        "id": made["Shop"]["id"],
        "name": "Shop",
        "slug": "shop",
        "removed": True,
        "deployments_removed": 6,
    }
    counts = [
        await operator.count(table)
        for table in (Project, Deployment, DeploymentLine, Repository, ProjectRole)
    ]
    assert counts == [1, 6, 18, 2, 1]
    async with operator.engines.sessions() as session:
        promoted = select(Deployment.id).where(Deployment.promoted_from_id.is_not(None))
        assert len((await session.execute(promoted)).all()) == 3
    assert "There is no project shop;" in await operator.expect_refusal("projects/remove", id="shop")
    (entry,) = [one for one in await operator.act("audit/list") if one["action"] == "project.remove"]
    assert entry["subject"] == f"project {made['Shop']['id']}"
    assert entry["details"] == {"name": "Shop", "slug": "shop", "deployments": 6}
    await operator.check_references()
    # Its slug is free again.
    await operator.act("projects/create", name="Shop")


async def add_webhooks(operator: Operator, slug: str) -> None:
    """A secret and deliveries of each repository of the project."""
    async with operator.engines.sessions() as session, session.begin():
        query = (
            select(Repository).join(Project, Project.id == Repository.project_id).where(Project.slug == slug)
        )
        for repository in await session.scalars(query):
            session.add(
                SealedWebhookSecret(
                    repository_id=repository.id, kind="hmac", key_id="k", sealed=b"s", created_at=NOW
                )
            )
            session.add_all(
                WebhookDelivery(
                    repository_id=repository.id,
                    scope=str(repository.id),
                    delivery=delivery,
                    is_first=True,
                    kind="github",
                    event="push",
                    headers="{}",
                    body=b"",
                    http_status=202,
                    answer="queued",
                    received_at=NOW,
                )
                for delivery in ("d1", "d2")
            )


@pytest.mark.both_databases
async def test_a_project_is_removed_with_its_webhooks(operator: Operator) -> None:
    """And nothing of another one, nor of the host's application."""
    for name in ("Shop", "Blog"):
        made = await operator.act("projects/create", name=name)
        await add_deployments(operator, made["id"])
        await add_webhooks(operator, made["slug"])
    async with operator.engines.sessions() as session, session.begin():
        delivery = (await session.scalars(select(WebhookDelivery).limit(1))).one()
        delivery.repository_id = None
    await operator.act("projects/remove", id="shop")
    counts = [await operator.count(table) for table in (Repository, SealedWebhookSecret, WebhookDelivery)]
    assert counts == [2, 2, 5]
    await operator.check_references()


@pytest.mark.both_databases
async def test_waiting_pushes_are_removed_with_the_environment_and_the_project(operator: Operator) -> None:
    made = await operator.act("projects/create", name="Shop")
    await add_deployments(operator, made["id"])
    async with operator.engines.sessions() as session, session.begin():
        project = (await session.execute(select(Project))).scalar_one()
        environment = await create_environment(session, project, "Pull 7", "pull-7", "preview", NOW)
        for repository in await session.scalars(select(Repository)):
            session.add(
                WaitingPush(
                    environment_id=environment.id,
                    repository_id=repository.id,
                    branch=f"b{repository.id}",
                    trigger="push",
                    source="203.0.113.7",
                    created_at=NOW,
                )
            )
    async with operator.engines.sessions() as session, session.begin():
        project = (await session.execute(select(Project))).scalar_one()
        environment = (await session.execute(select(Environment))).scalar_one()
        await remove_environment(session, DeployTarget(environment, project), Actor("test"), NOW)
    assert await operator.count(WaitingPush) == 0
    await operator.act("projects/remove", id="shop")
    await operator.check_references()


async def test_a_project_in_use_is_not_removed(operator: Operator) -> None:
    await operator.act("projects/create", name="Shop")
    async with operator.engines.sessions() as session, session.begin():
        project = (await session.execute(select(Project))).scalar_one()
        for number in range(7):
            await create_environment(session, project, f"E{number}", f"e{number}", "preview", NOW)
    await add_deployments(operator, project.public_id)
    assert await operator.expect_refusal("projects/remove", id="shop") == (
        "The project shop still has the environments e0, e1, e2, e3, e4 and 2 more: remove what is in it first, with "
        "`pharos environment remove` and `pharos site remove`."
    )
    await operator.objects.add_site("shop.example", "https://shop.example")
    assert "e4 and 2 more and the site shop.example: remove" in await operator.expect_refusal(
        "projects/remove", id="shop"
    )
    counts = [await operator.count(table) for table in (Project, Deployment, DeploymentLine, Repository)]
    assert counts == [1, 6, 18, 2]
    assert [action for action, _ in await operator.read_audit_log()] == ["account.create", "project.create"]


@pytest.mark.both_databases
async def test_concurrent_additions_to_a_removed_project(operator: Operator) -> None:
    """Either there is an environment and the project, or neither."""

    async def add_environment(slug: str) -> None:
        async with operator.engines.sessions() as session, session.begin():
            project = (await session.execute(select(Project).where(Project.slug == slug))).scalar_one()
            await create_environment(session, project, "Production", "production", "production", NOW)

    for number in range(_ROUNDS):
        slug = f"p{number}"
        made = await operator.act("projects/create", name=slug)
        await add_deployments(operator, made["id"])
        removed, added = await asyncio.gather(
            operator.act("projects/remove", id=slug), add_environment(slug), return_exceptions=True
        )
        if isinstance(removed, BaseException):
            assert added is None
            told = ("remove what is in it first", "Something was added to the project meanwhile")
            assert any(part in str(removed) for part in told)
        else:
            assert added is not None and "Integrity" in repr(added) or "NoResultFound" in repr(added)
        here = slug in {one["slug"] for one in await operator.act("projects/list")}
        assert here == isinstance(removed, BaseException)
    await operator.check_references()


@pytest.mark.both_databases
async def test_a_project_is_removed_once(operator: Operator) -> None:
    for number in range(_ROUNDS):
        made = await operator.act("projects/create", name=f"p{number}")
        await add_deployments(operator, made["id"])
        told = await asyncio.gather(
            *(operator.act("projects/remove", id=made["id"]) for _ in range(3)), return_exceptions=True
        )
        refusals = [str(one) for one in told if isinstance(one, BaseException)]
        assert len(refusals) == 2
        assert all("is removed already" in one or "There is no project" in one for one in refusals)
    assert [action for action, _ in await operator.read_audit_log()].count("project.remove") == _ROUNDS


@pytest.mark.both_databases
async def test_concurrent_roles_in_a_removed_project(operator: Operator) -> None:
    await operator.act("people/add", email="eve@example.com", name="Eve")
    for number in range(_ROUNDS):
        made = await operator.act("projects/create", name=f"p{number}")
        wanted = {"id": made["id"], "email": "eve@example.com"}
        if number % 2:
            await operator.act("projects/grant", **wanted, role="viewer")
        removed, *others = await asyncio.gather(
            operator.act("projects/remove", id=made["id"]),
            operator.act("projects/grant", **wanted, role="deployer"),
            operator.act("projects/revoke", **wanted),
            return_exceptions=True,
        )
        assert not isinstance(removed, BaseException)
        for one in others:
            told = ("There is no project", "has no role in the project")
            assert not isinstance(one, BaseException) or any(part in str(one) for part in told)
    assert await operator.count(ProjectRole) == 0
    await operator.check_references()

"""Repositories as an operator handles them, on both databases."""

import asyncio
from typing import Any

import pytest

from control_domain.projects.operations import create_project
from control_domain.refusals import Refused
from control_domain.tables.deployments import Deployment
from control_domain.tables.repositories import Repository
from pipeline_contracts.deploy_states import ACTIVE_STATUSES, FINAL_STATUSES, DeploymentStatus
from tests.support.managed_project import NOW, ManagedProject

URL = "git@github.com:acme/blog.git"


@pytest.fixture
async def blog(managed: ManagedProject) -> str:
    """The ID of a project without a repository."""
    async with managed.engines.sessions() as session, session.begin():
        return (await create_project(session, managed.account, "Blog", "blog", NOW)).public_id


async def test_a_repository_is_connected_to_one_project(managed: ManagedProject, blog: str) -> None:
    told = await managed.act("repositories/connect", url=URL, project_id="blog")
    assert told == {
        "id": told["id"],
        "project": {"id": blog, "name": "Blog", "slug": "blog"},
        "kind": "github",
        "url": URL,
        "branch": "main",
        "host_id": None,
        "push_deploys": True,
        "forks": False,
        "sample": False,
        "secret_kind": "hmac",
        "connected_at": "2026-11-18T12:00:00.000Z",
        "webhook": told["webhook"],
    }
    listed = await managed.act("repositories/list")
    assert [one["id"] for one in listed] == [managed.repository.id, told["id"]]
    assert listed[1] == {name: value for name, value in told.items() if name != "webhook"}
    assert listed[0]["secret_kind"] is None
    details = {"project": blog, "kind": "github", "url": URL, "branch": "main", "webhook": "hmac"}
    entry = ("repository.connect", f"repository {told['id']}", None, "operator kim", details)
    assert await managed.read_audit_log() == [entry]


async def test_the_kind_can_be_given(managed: ManagedProject, blog: str) -> None:
    wanted = {"url": "https://git.example/blog", "project_id": blog, "branch": "trunk"}
    told = await managed.act("repositories/connect", **wanted, kind="gitlab")
    assert (told["kind"], told["branch"]) == ("gitlab", "trunk")
    await managed.act("repositories/disconnect", id=told["id"])
    assert (await managed.act("repositories/connect", **wanted))["kind"] == "git"


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"url": ""}, "A repository's address has 1 to 500 characters"),
        ({"url": "ext::sh -c id"}, "This is no repository's address"),
        ({"kind": "svn"}, "The kind is one of github, gitlab, bitbucket, git."),
        ({"branch": "-x"}, "'-x' is no name of a branch that Git allows"),
        ({"project_id": None}, "There are several projects: name one by its ID"),
        (
            {"project_id": "shop"},
            "The project shop is deployed from https://git.example/shop.git already; disconnect",
        ),
    ],
    ids=str,
)
async def test_invalid_repositories_are_refused(
    managed: ManagedProject, blog: str, wanted: dict[str, Any], told: str
) -> None:
    line = await managed.expect_refusal("repositories/connect", **{"url": URL, "project_id": blog, **wanted})
    assert told in line
    assert await managed.count(Repository) == 1


async def test_a_secret_in_the_address_is_not_repeated(managed: ManagedProject, blog: str) -> None:
    line = await managed.expect_refusal(
        "repositories/connect", url="https://x:hunter2@github.com/a/b", project_id=blog
    )
    assert "hunter2" not in line and "deploy key" in line


@pytest.mark.both_databases
async def test_of_five_concurrent_connects_one_succeeds(managed: ManagedProject, blog: str) -> None:
    told = await asyncio.gather(
        *(managed.act("repositories/connect", url=f"/srv/{n}.git", project_id=blog) for n in range(5)),
        return_exceptions=True,
    )
    (made,) = [one for one in told if isinstance(one, dict)]
    assert {str(one) for one in told if isinstance(one, Refused)} == {
        f"The project blog is deployed from {made['url']} already; disconnect that first with `pharos repository "
        f"disconnect {made['id']}`."
    }


async def test_the_branch_is_set(managed: ManagedProject) -> None:
    number = managed.repository.id
    assert (await managed.act("repositories/set-branch", id=number, branch="trunk"))["branch"] == "trunk"
    await managed.act("repositories/set-branch", id=number, branch="trunk")
    details = {"from": "main", "to": "trunk"}
    entry = ("repository.branch", f"repository {number}", None, "operator kim", details)
    assert await managed.read_audit_log() == [entry]
    assert "'' is no name of a branch" in await managed.expect_refusal("repositories/set-branch", id=number)
    line = await managed.expect_refusal("repositories/set-branch", id=99, branch="main")
    assert line == "No repository 99 is connected; `pharos repository list` shows those that are."


async def test_a_repository_is_disconnected_once(managed: ManagedProject) -> None:
    number = managed.repository.id
    for status in (*FINAL_STATUSES, DeploymentStatus.AWAITING_APPROVAL):
        await managed.change(Deployment, await managed.queue(), status=status)
    before = len(await managed.read_audit_log())
    told = await managed.act("repositories/disconnect", id=number)
    assert (told["id"], told["disconnected"]) == (number, True)
    assert await managed.act("repositories/list") == []
    assert len(await managed.read_audit_log()) == before + 1
    assert "No repository" in await managed.expect_refusal("repositories/disconnect", id=number)
    # Another one can come in its place.
    await managed.act("repositories/connect", url=URL)


@pytest.mark.parametrize("status", ACTIVE_STATUSES)
async def test_not_while_a_deployment_of_the_project_is_active(managed: ManagedProject, status: str) -> None:
    number = await managed.queue()
    await managed.change(Deployment, number, status=status)
    line = await managed.expect_refusal("repositories/disconnect", id=managed.repository.id)
    assert line == (
        f"Deployment {number} of the project shop is {status}: wait until it is finished, or end it with `pharos "
        f"cancel {number}`."
    )

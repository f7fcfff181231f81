"""The webhooks of repositories as an operator handles them: secrets, switches, and what ends with a repository."""

import asyncio
import base64
from typing import Any

import pytest
from sqlalchemy import delete, select

from control_domain.projects.operations import create_project
from control_domain.refusals import Refused
from control_domain.repositories.webhook_secrets import open_secret
from control_domain.tables.deployments import Deployment
from control_domain.tables.repositories import Repository
from control_domain.tables.webhooks import SealedWebhookSecret, WaitingPush
from git_hosts.webhook_events import WebhookSecret
from pipeline_contracts.deploy_states import DeploymentStatus
from tests.support.managed_project import NOW, ManagedProject

URL = "git@github.com:Acme/Blog.git"
# The same in every process: it is part of a test's name.
SIGNING = "whsec_" + base64.b64encode(bytes(range(32))).decode()


@pytest.fixture
async def blog(managed: ManagedProject) -> str:
    """The slug of a project without a repository."""
    async with managed.engines.sessions() as session, session.begin():
        return (await create_project(session, managed.account, "Blog", "blog", NOW)).slug


async def _kept(managed: ManagedProject, number: int) -> WebhookSecret | None:
    """What the webhooks of this repository are checked with."""
    async with managed.engines.sessions() as session:
        row = await session.get(SealedWebhookSecret, number)
        return None if row is None else open_secret(managed.engines.sealing_keys(), row)


async def _let_push_wait(managed: ManagedProject, repository_id: int, branch: str = "main") -> None:
    async with managed.engines.sessions() as session, session.begin():
        waiting = WaitingPush(
            environment_id=managed.environment.id,
            repository_id=repository_id,
            branch=branch,
            trigger="push",
            source="webhook",
            created_at=NOW,
        )
        session.add(waiting)


@pytest.mark.parametrize(
    ("kind", "wanted", "secret_kind"),
    [
        ("github", {}, "hmac"),
        ("bitbucket", {}, "hmac"),
        ("gitlab", {}, "signing"),
        ("gitlab", {"plain_secret": True}, "plain"),
        ("github", {"secret": "chosen-by-the-host"}, "hmac"),
        ("gitlab", {"secret": SIGNING}, "signing"),
        ("gitlab", {"secret": "chosen-by-the-host", "plain_secret": True}, "plain"),
    ],
    ids=str,
)
async def test_a_hosted_repository_gets_a_secret(
    managed: ManagedProject, blog: str, kind: str, wanted: dict[str, Any], secret_kind: str
) -> None:
    told = await managed.act("repositories/connect", url=URL, project_id=blog, kind=kind, **wanted)
    webhook = told["webhook"]
    assert (webhook["kind"], told["secret_kind"]) == (secret_kind, secret_kind)
    assert webhook["secret"] == wanted.get("secret", webhook["secret"])
    assert await _kept(managed, told["id"]) == WebhookSecret(secret_kind, webhook["secret"])  # type: ignore[arg-type]
    # It is told this once.
    assert webhook["secret"] not in repr(
        [await managed.act("repositories/list"), await managed.read_audit_log()]
    )
    async with managed.engines.sessions() as session:
        assert (await session.get_one(Repository, told["id"])).full_name == "acme/blog"


async def test_any_other_repository_has_no_webhook(managed: ManagedProject, blog: str) -> None:
    # Nothing is sealed then.
    managed.engines = _without_keys(managed)
    told = await managed.act("repositories/connect", url="/srv/blog.git", project_id=blog)
    assert (told["kind"], told["webhook"], told["secret_kind"]) == ("git", None, None)
    assert await managed.count(SealedWebhookSecret) == 0
    assert "webhook" not in (await managed.read_audit_log())[0][4]


def _without_keys(managed: ManagedProject) -> Any:
    return type(managed.engines)(managed.engines.sessions, managed.engines.directory)


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"secret": "short-hunter2"}, "has 16 to 255 printable ASCII characters"),
        ({"secret": "hunter2 hunter2 hunter2"}, "has 16 to 255 printable ASCII characters"),
        ({"secret": ""}, "has 16 to 255 printable ASCII characters"),
        ({"kind": "gitlab", "secret": "hunter2-hunter2-hunter2"}, "say so with --plain-secret"),
        ({"plain_secret": True}, "A webhook of github is always signed: leave --plain-secret out."),
        ({"kind": "git", "plain_secret": True}, "A repository of the kind git has no webhook"),
        ({"kind": "git", "secret": "hunter2-hunter2-hunter2"}, "A repository of the kind git has no webhook"),
    ],
    ids=str,
)
async def test_invalid_secrets_are_refused(
    managed: ManagedProject, blog: str, wanted: dict[str, Any], told: str
) -> None:
    line = await managed.expect_refusal("repositories/connect", **{"url": URL, "project_id": blog, **wanted})
    assert told in line and "hunter2" not in line
    assert await managed.count(Repository) == 1


async def test_without_sealing_keys_nothing_is_connected(managed: ManagedProject, blog: str) -> None:
    managed.engines = _without_keys(managed)
    line = await managed.expect_refusal("repositories/connect", url=URL, project_id=blog)
    assert line.startswith("Set PHAROS_VARIABLES_KEY as well")
    assert await managed.count(Repository) == 1


async def test_a_new_secret_replaces_the_old_one(managed: ManagedProject, blog: str) -> None:
    made = await managed.act("repositories/connect", url=URL, project_id=blog, kind="gitlab")
    told = await managed.act("repositories/new-secret", id=made["id"])
    assert told["webhook"]["secret"] != made["webhook"]["secret"]
    assert await _kept(managed, made["id"]) == WebhookSecret("signing", told["webhook"]["secret"])
    given = {"secret": "chosen-by-the-host", "plain_secret": True}
    told = await managed.act("repositories/new-secret", id=made["id"], **given)
    assert (told["webhook"], told["secret_kind"]) == (
        {"kind": "plain", "secret": "chosen-by-the-host"},
        "plain",
    )
    assert await _kept(managed, made["id"]) == WebhookSecret("plain", "chosen-by-the-host")
    entry = ("repository.secret", f"repository {made['id']}", None, "operator kim", {"kind": "plain"})
    audited = await managed.read_audit_log()
    assert audited[0] == entry
    assert "chosen-by-the-host" not in repr(audited)


async def test_a_new_secret_is_of_the_kind_of_the_old_one(managed: ManagedProject, blog: str) -> None:
    """A host that has no signing tokens would be refused from then on."""
    made = await managed.act(
        "repositories/connect", url=URL, project_id=blog, kind="gitlab", plain_secret=True
    )
    told = await managed.act("repositories/new-secret", id=made["id"])
    assert told["webhook"]["kind"] == told["secret_kind"] == "plain"
    told = await managed.act("repositories/new-secret", id=made["id"], secret="chosen-by-the-host")
    assert await _kept(managed, made["id"]) == WebhookSecret("plain", "chosen-by-the-host")
    # Whoever gives a signing token has a host that signs.
    await managed.act("repositories/new-secret", id=made["id"], secret=SIGNING)
    assert await _kept(managed, made["id"]) == WebhookSecret("signing", SIGNING)
    await managed.act("repositories/new-secret", id=made["id"], plain_secret=True)
    told = await managed.act("repositories/new-secret", id=made["id"], signing=True)
    assert told["webhook"]["kind"] == "signing"
    await managed.change(Repository, made["id"], kind="github")
    line = await managed.expect_refusal("repositories/new-secret", id=made["id"], signing=True)
    assert line.startswith("Only GitLab has signing tokens")
    assert await _kept(managed, made["id"]) == WebhookSecret("signing", told["webhook"]["secret"])


async def test_the_id_at_the_host_is_set_and_given_up(managed: ManagedProject, blog: str) -> None:
    made = await managed.act("repositories/connect", url=URL, project_id=blog)
    uuid = "{00000000-0000-0000-0000-000000000015}"
    for kind, given, kept in (("github", "15", "15"), ("bitbucket", uuid, uuid), ("bitbucket", "auto", None)):
        await managed.change(Repository, made["id"], kind=kind)
        told = await managed.act("repositories/set", id=made["id"], host_id=given)
        assert told["host_id"] == kept
    # The format of a delivery's ID in `pharos webhooks show`, which is no repository's ID.
    for kind, given in (("github", uuid), ("gitlab", "aada3625-8a5b-11ee"), ("bitbucket", "15")):
        await managed.change(Repository, made["id"], kind=kind)
        line = await managed.expect_refusal("repositories/set", id=made["id"], host_id=given)
        assert f"is not the ID of a repository at {kind}" in line
    for given in ("", "a b", "x" * 65, "ä"):
        line = await managed.expect_refusal("repositories/set", id=made["id"], host_id=given)
        assert "1 to 64 printable ASCII characters" in line
    details = {"host_id": {"from": uuid, "to": None}}
    assert (await managed.read_audit_log())[0][::4] == ("repository.set", details)


async def test_a_repository_from_before_webhooks_gets_its_first_secret(managed: ManagedProject) -> None:
    number = managed.repository.id
    line = await managed.expect_refusal("repositories/new-secret", id=number)
    assert line.startswith("A repository of the kind git has no webhook")
    await managed.change(Repository, number, kind="github")
    assert [one["secret_kind"] for one in await managed.act("repositories/list")] == [None]
    await managed.act("repositories/new-secret", id=number)
    assert [one["secret_kind"] for one in await managed.act("repositories/list")] == ["hmac"]
    assert (await managed.expect_refusal("repositories/new-secret", id=99)).startswith("No repository 99")


@pytest.mark.both_databases
async def test_of_five_concurrent_secrets_the_last_one_is_kept(managed: ManagedProject) -> None:
    number = managed.repository.id
    await managed.change(Repository, number, kind="github")
    told = await asyncio.gather(*(managed.act("repositories/new-secret", id=number) for _ in range(5)))
    kept = await _kept(managed, number)
    assert kept is not None and kept.value in {one["webhook"]["secret"] for one in told}


async def test_switches_are_set(managed: ManagedProject) -> None:
    number = managed.repository.id
    await managed.change(Repository, number, kind="github")
    told = await managed.act("repositories/set", id=number, push_deploys=False, forks=True)
    assert (told["push_deploys"], told["forks"]) == (False, True)
    details = {"push_deploys": {"from": True, "to": False}, "forks": {"from": False, "to": True}}
    entry = ("repository.set", f"repository {number}", None, "operator kim", details)
    assert await managed.read_audit_log() == [entry]
    # What is so already is no change.
    told = await managed.act("repositories/set", id=number, forks=True)
    assert (told["push_deploys"], told["forks"]) == (False, True)
    assert await managed.read_audit_log() == [entry]
    await managed.act("repositories/set", id=number, push_deploys=True)
    (listed,) = await managed.act("repositories/list")
    assert (listed["push_deploys"], listed["forks"]) == (True, True)


@pytest.mark.both_databases
async def test_invalid_settings_are_refused(managed: ManagedProject) -> None:
    number = managed.repository.id
    assert (await managed.expect_refusal("repositories/set", id=number)).startswith("Nothing to change")
    line = await managed.expect_refusal("repositories/set", id=number, forks=True)
    assert line == "A repository of the kind git has no webhook that could be set."
    assert (await managed.expect_refusal("repositories/set", id=99, forks=True)).startswith(
        "No repository 99"
    )


async def test_waiting_pushes_and_the_secret_are_removed_with_the_repository(
    managed: ManagedProject, blog: str
) -> None:
    number = managed.repository.id
    await managed.change(Repository, number, kind="github")
    await managed.act("repositories/new-secret", id=number)
    other = await managed.act("repositories/connect", url=URL, project_id=blog)
    for branch in ("main", "trunk"):
        await _let_push_wait(managed, number, branch)
    await _let_push_wait(managed, other["id"], "blog")
    told = await managed.act("repositories/disconnect", id=number)
    assert told["secret_kind"] is None
    assert await managed.count(WaitingPush, WaitingPush.repository_id == number) == 0
    assert await _kept(managed, number) is None
    # Another repository's stay.
    assert await managed.count(WaitingPush) == 1
    assert await _kept(managed, other["id"]) is not None


async def test_a_refused_disconnect_changes_nothing(managed: ManagedProject) -> None:
    number = managed.repository.id
    await managed.change(Repository, number, kind="github")
    await managed.act("repositories/new-secret", id=number)
    await _let_push_wait(managed, number)
    await managed.queue()
    assert "is queued" in await managed.expect_refusal("repositories/disconnect", id=number)
    assert await managed.count(WaitingPush) == 1
    assert await _kept(managed, number) is not None


@pytest.mark.both_databases
async def test_a_push_being_queued_blocks_nobody(managed: ManagedProject) -> None:
    """Whoever takes it up holds its row, and asks for the repository's next: crosswise, if the row were waited for."""
    sessions = managed.engines.sessions
    await _let_push_wait(managed, managed.repository.id)
    async with sessions() as session, session.begin():
        if session.get_bind().dialect.name == "sqlite":
            # It lets one transaction write at a time.
            return
        await session.execute(delete(WaitingPush))
        async with asyncio.timeout(30):
            told = await managed.act("repositories/disconnect", id=managed.repository.id)
    assert told["disconnected"] is True
    assert await managed.count(WaitingPush) == 0


@pytest.mark.both_databases
async def test_a_connected_repository_replaces_the_sample(managed: ManagedProject) -> None:
    sample = managed.repository.id
    await managed.change(Repository, sample, is_sample=True, kind="github")
    await managed.act("repositories/new-secret", id=sample)
    await _let_push_wait(managed, sample)
    assert [one["sample"] for one in await managed.act("repositories/list")] == [True]
    told = await managed.act("repositories/connect", url=URL)
    assert [one["id"] for one in await managed.act("repositories/list")] == [told["id"]]
    assert (told["id"] != sample, told["sample"]) == (True, False)
    assert await managed.count(WaitingPush) == 0
    assert await _kept(managed, sample) is None
    connected, disconnected, *_ = await managed.read_audit_log()
    assert connected[:2] == ("repository.connect", f"repository {told['id']}")
    assert disconnected[:2] == ("repository.disconnect", f"repository {sample}")


async def test_the_sample_stays_while_it_is_deployed(managed: ManagedProject) -> None:
    sample = managed.repository.id
    await managed.change(Repository, sample, is_sample=True)
    number = await managed.queue()
    line = await managed.expect_refusal("repositories/connect", url=URL)
    assert line == (
        f"Deployment {number} of the project shop is queued: wait until it is finished, or end it with `pharos "
        f"cancel {number}`."
    )
    assert [one["id"] for one in await managed.act("repositories/list")] == [sample]
    await managed.change(Deployment, number, status=DeploymentStatus.SUCCEEDED)
    await managed.act("repositories/connect", url=URL)


@pytest.mark.both_databases
async def test_of_five_concurrent_connects_one_replaces_the_sample(managed: ManagedProject) -> None:
    sample = managed.repository.id
    await managed.change(Repository, sample, is_sample=True)
    told = await asyncio.gather(
        *(managed.act("repositories/connect", url=f"/srv/{n}.git") for n in range(5)), return_exceptions=True
    )
    (made,) = [one for one in told if isinstance(one, dict)]
    assert {str(one) for one in told if isinstance(one, Refused)} == {
        f"The project shop is deployed from {made['url']} already; disconnect that first with `pharos repository "
        f"disconnect {made['id']}`."
    }
    actions = [entry[0] for entry in await managed.read_audit_log()]
    assert actions == ["repository.connect", "repository.disconnect"]
    async with managed.engines.sessions() as session:
        kept = await session.execute(select(Repository.id).where(Repository.disconnected_at.is_(None)))
        assert kept.scalars().all() == [made["id"]]

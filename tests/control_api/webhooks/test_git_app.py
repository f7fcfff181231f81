"""The webhook of the Git host's application: installations, and deliveries through them; on both databases."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from sqlalchemy import select, update

from control_domain.repositories.operations import connect_repository
from control_domain.tables.deployments import Deployment
from control_domain.tables.repositories import Repository
from control_domain.tables.webhooks import InstalledRepository
from control_domain.webhooks import process_push as process_push
from git_hosts.webhook_events import WebhookSecret
from pipeline_contracts.errors import NotFound
from tests.support.deploy_platform import Response
from tests.support.webhooks import WebhookRepository, WebhookRequest, encode_request, pull, push

SECRET = "the secret of the application"
IDS = {"acme/shop": 1, "acme/other": 2, "globex/shop": 1}
PATHS = ("/git-app/webhook", "/github-app/webhook")


@pytest.fixture
async def app(github: WebhookRepository) -> WebhookRepository:
    """The application's webhook; its repository is acme's shop."""
    github.platform.app.state.git_app_secret = SECRET
    github.secret = WebhookSecret("hmac", SECRET)
    return github


async def _deliver(
    app: WebhookRepository, sent: WebhookRequest, delivery: str | None = None, path: str = PATHS[0]
) -> Response:
    return await app.deliver(sent, delivery, path=path)


def _repositories(names: Iterable[str]) -> Any:
    return [{"id": IDS[name.lower()], "full_name": name} for name in names]


def _installation(action: str, *names: str, number: int = 1) -> WebhookRequest:
    payload = {
        "action": action,
        "installation": {"id": number, "account": {"login": "Acme"}},
        "repositories": _repositories(names),
    }
    return encode_request("installation", payload)


def _changed(added: list[str], removed: list[str]) -> WebhookRequest:
    payload = {
        "action": "added" if added else "removed",
        "installation": {"id": 1, "account": {"login": "Acme"}},
        "repositories_added": _repositories(added),
        "repositories_removed": _repositories(removed),
    }
    return encode_request("installation_repositories", payload)


@pytest.mark.parametrize("path", PATHS)
async def test_a_ping_with_a_valid_signature_gets_pong(app: WebhookRepository, path: str) -> None:
    sent = encode_request("ping", {"zen": "Keep it logically awesome.", "hook_id": 1})
    answer = await _deliver(app, sent, path=path)
    assert (answer.status, answer.json()) == (200, {"status": "pong"})
    app.secret = WebhookSecret("hmac", "another secret than it has")
    assert (await _deliver(app, sent, path=path)).problem == (401, "bad-signature")


async def test_without_a_secret_the_application_is_404(app: WebhookRepository) -> None:
    app.platform.app.state.git_app_secret = None
    assert (await _deliver(app, encode_request("ping", {}))).problem == (404, "not-found")


@pytest.mark.both_databases
@pytest.mark.parametrize("path", PATHS)
async def test_an_installation_connects_its_repositories(app: WebhookRepository, path: str) -> None:
    sent = push("github", installation=1)
    assert (await _deliver(app, sent, path=path)).problem == (404, "not-found")
    answer = await _deliver(app, _installation("created", "ACME/Shop", "Acme/Other"), path=path)
    assert (answer.status, answer.json()) == (200, {"status": "handled"})
    answer = await _deliver(app, sent, path=path)
    assert (answer.status, answer.json()["status"]) == (202, "queued")
    assert (await _deliver(app, push("github", installation=2), path=path)).status == 404
    assert (await _deliver(app, push("github"), path=path)).status == 404
    other = push("github", full_name="Acme/Other", host_id=2, installation=1)
    assert (await _deliver(app, other, path=path)).status == 404


@pytest.mark.both_databases
@pytest.mark.parametrize(
    "ending",
    [_installation("deleted"), _installation("suspend"), _changed([], ["Acme/Shop"])],
    ids=["deleted", "suspended", "repository removed"],
)
async def test_a_deleted_installation_disconnects_its_repositories(
    app: WebhookRepository, ending: WebhookRequest
) -> None:
    await _deliver(app, _installation("created", "Acme/Shop"))
    assert (await _deliver(app, ending)).json() == {"status": "handled"}
    assert (await _deliver(app, push("github", installation=1))).status == 404


async def test_an_unsuspended_installation_connects_again(app: WebhookRepository) -> None:
    for action in ("created", "suspend", "unsuspend"):
        await _deliver(app, _installation(action, "Acme/Shop"))
    assert (await _deliver(app, push("github", installation=1))).status == 202


@pytest.mark.both_databases
async def test_repositories_may_be_added_later(app: WebhookRepository) -> None:
    # An unknown installation: hosts may send events out of order.
    await _deliver(app, _changed(["Acme/Shop"], []))
    await _deliver(app, _changed(["Acme/Shop"], []))
    assert (await _deliver(app, push("github", installation=1))).status == 202


@pytest.mark.both_databases
async def test_every_project_of_the_repository_is_deployed(app: WebhookRepository) -> None:
    tenant = app.platform.acme
    async with app.platform.sessions() as session, session.begin():
        now = tenant.account.created_at
        blog = await connect_repository(
            session, tenant.projects["blog"].id, "github", "https://github.com/acme/shop", "main", now
        )
    await _deliver(app, _installation("created", "Acme/Shop"))
    # The other project has no workflow yet, which does not block the first one.
    answer = await _deliver(app, push("github", installation=1))
    assert (answer.status, answer.json()["status"]) == (202, "queued")
    async with app.platform.sessions() as session:
        query = select(Deployment.repository_id).where(Deployment.trigger == "push")
        assert (await session.execute(query)).scalars().all() == [app.repository_id]
        assert await session.get(Repository, blog.id) is not None


async def test_pull_requests_are_processed_too(app: WebhookRepository) -> None:
    await _deliver(app, _installation("created", "Acme/Shop"))
    answer = await _deliver(app, pull("github", installation=1))
    assert (answer.status, answer.json()["status"]) == (202, "preview_queued")


@pytest.mark.both_databases
async def test_duplicates_are_recognized(app: WebhookRepository) -> None:
    await _deliver(app, _installation("created", "Acme/Shop"))
    sent = push("github", installation=1)
    assert (await _deliver(app, sent, "one")).json()["status"] == "queued"
    assert (await _deliver(app, sent, "one", PATHS[1])).json() == {"status": "duplicate"}


async def test_projects_that_are_not_ready_are_ignored(app: WebhookRepository) -> None:
    await _deliver(app, _installation("created", "Acme/Shop"))
    await app.platform.change("shop/production", state="hibernated")
    answer = await _deliver(app, push("github", installation=1))
    assert (answer.status, answer.json()) == (200, {"status": "ignored"})
    assert "hibernated" in ((await app.deliveries())[-1].reason or "")


async def test_a_repository_webhook_ignores_installations(github: WebhookRepository) -> None:
    assert await github.deliver_status(_installation("created", "Acme/Shop")) == (200, "ignored")


async def _ids(app: WebhookRepository) -> dict[str, str | None]:
    """Return the IDs of the accessible repositories by name."""
    async with app.platform.sessions() as session:
        rows = (await session.execute(select(InstalledRepository))).scalars()
        return {row.full_name: row.host_id for row in rows}


@pytest.mark.both_databases
@pytest.mark.parametrize("is_known", [True, False], ids=["known", "before its first push"])
async def test_a_renamed_repository_is_still_deployed(app: WebhookRepository, is_known: bool) -> None:
    await _deliver(app, _installation("created", "Acme/Shop"))
    if is_known:
        await _deliver(app, pull("github", installation=1))
    renamed = push("github", full_name="Acme/Boutique", installation=1)
    assert (await _deliver(app, renamed)).status == 202
    assert await _ids(app) == {"acme/boutique": "1"}
    assert (await _deliver(app, pull("github", "closed", installation=1))).status == 200


@pytest.mark.both_databases
async def test_a_repository_with_a_reused_name_is_not_matched(app: WebhookRepository) -> None:
    await _deliver(app, _installation("created", "Acme/Shop"))
    assert (await _deliver(app, push("github", installation=1))).status == 202
    taker = _changed(["Acme/Shop"], [])
    await _deliver(
        app, WebhookRequest(taker.event, taker.body.replace(b'"id": 1, "full_name"', b'"id": 9, "full_name"'))
    )
    assert await _ids(app) == {"acme/shop": "9", "?/1": "1"}
    answer = await _deliver(app, push("github", host_id=9, installation=1))
    assert answer.problem == (404, "not-found")
    assert "removed and created again" in ((await app.deliveries())[-1].reason or "")
    renamed = push("github", "develop", full_name="Acme/Boutique", installation=1)
    assert (await _deliver(app, renamed)).status == 202
    assert await _ids(app) == {"acme/shop": "9", "acme/boutique": "1"}


@pytest.mark.both_databases
async def test_a_repository_may_move_to_another_installation(app: WebhookRepository) -> None:
    await _deliver(app, _installation("created", "Acme/Shop"))
    assert (await _deliver(app, push("github", installation=1))).status == 202
    await _deliver(app, _changed([], ["Acme/Shop"]))
    await _deliver(app, _installation("created", "Globex/Shop", number=2))
    moved = push("github", "develop", full_name="Globex/Shop", installation=2)
    assert (await _deliver(app, moved)).status == 202
    assert (await _deliver(app, push("github", installation=1))).status == 404


@pytest.mark.both_databases
async def test_the_next_delivery_stores_a_missing_repository_id(app: WebhookRepository) -> None:
    await _deliver(app, _installation("created", "Acme/Shop"))
    async with app.platform.sessions() as session, session.begin():
        await session.execute(update(InstalledRepository).values(host_id=None))
    assert (await _deliver(app, push("github", installation=1))).status == 202
    assert await _ids(app) == {"acme/shop": "1"}


@pytest.mark.both_databases
async def test_deliveries_without_a_connected_repository_are_listed(app: WebhookRepository) -> None:
    """Once the repository is connected, the same delivery is not a duplicate."""
    sent = push("github", installation=1)
    assert (await _deliver(app, sent, "one")).problem == (404, "not-found")
    (kept,) = await app.deliveries()
    assert (kept.http_status, kept.answer) == (404, "not-found")
    assert "Acme/Shop" in (kept.reason or "")
    await _deliver(app, _installation("created", "Acme/Shop"))
    assert (await _deliver(app, sent, "one")).status == 202


async def test_a_repository_of_the_same_name_on_another_host_is_not_deployed(app: WebhookRepository) -> None:
    await app.change(url="https://github.example/acme/shop.git")
    await _deliver(app, _installation("created", "Acme/Shop"))
    payload = json.loads(push("github", installation=1).body)
    payload["repository"]["html_url"] = "https://github.com/Acme/Shop"
    assert (await _deliver(app, encode_request("push", payload))).status == 404
    payload["repository"]["html_url"] = "https://github.example/Acme/Shop"
    assert (await _deliver(app, encode_request("push", payload))).status == 202


async def test_a_removed_environment_does_not_block_other_projects(
    app: WebhookRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment of one of two projects is removed between lookup and deployment."""
    tenant = app.platform.acme
    async with app.platform.sessions() as session, session.begin():
        await connect_repository(
            session,
            tenant.projects["blog"].id,
            "github",
            "https://github.com/acme/shop",
            "main",
            tenant.account.created_at,
        )
    await app.set_workflow(project="blog")
    await _deliver(app, _installation("created", "Acme/Shop"))
    queue = process_push.queue_deployment

    async def removed_in_the_shop(session: Any, target: Any, *arguments: Any) -> Deployment:
        if target.project.slug == "shop":
            raise NotFound("There is no such environment.")
        return await queue(session, target, *arguments)

    monkeypatch.setattr(process_push, "queue_deployment", removed_in_the_shop)
    answer = await _deliver(app, push("github", installation=1))
    assert (answer.status, answer.json()["status"]) == (202, "queued")
    assert "removed meanwhile" in ((await app.deliveries())[-1].reason or "")

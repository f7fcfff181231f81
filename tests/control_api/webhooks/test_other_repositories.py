"""A webhook only deploys its own repository: group, organization and system hooks send events of other repositories to
the same URL with a valid signature; on both databases."""

import asyncio
import json
from typing import Any

import pytest
from sqlalchemy import select

from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment
from control_domain.tables.repositories import Repository
from tests.hostile.foreign_webhooks import attack
from tests.support.webhooks import (
    KINDS,
    WebhookRepository,
    WebhookRequest,
    encode_request,
    pull,
    push,
    uuid_of,
)

OTHER: dict[str, Any] = {"full_name": "Acme/Till", "host_id": 2}
RENAMED: dict[str, Any] = {"full_name": "Acme/Boutique", "host_id": 1}
MOVED: dict[str, Any] = {"full_name": "Globex/Shop", "host_id": 1}
RECREATED: dict[str, Any] = {"full_name": "Acme/Shop", "host_id": 2}


async def _host_id(webhook: WebhookRepository) -> str | None:
    async with webhook.platform.sessions() as session:
        return (await session.get_one(Repository, webhook.repository_id)).host_id


def _written(kind: str, number: int) -> str:
    return uuid_of(number) if kind == "bitbucket" else str(number)


async def _previews(webhook: WebhookRepository) -> list[str]:
    async with webhook.platform.sessions() as session:
        query = select(Environment.slug).where(Environment.type == "preview")
        return list((await session.execute(query)).scalars())


async def _reason(webhook: WebhookRepository) -> str:
    return (await webhook.deliveries())[-1].reason or ""


@pytest.mark.both_databases
async def test_deliveries_about_another_repository_are_ignored_and_listed(webhook: WebhookRepository) -> None:
    kind = webhook.kind
    assert await webhook.deliver_status(pull(kind)) == (202, "preview_queued")
    for sent in (
        push(kind, **OTHER),
        push(kind, after="0" * 40, **OTHER),
        pull(kind, "updated", revision="b" * 40, **OTHER),
        pull(kind, "closed", **OTHER),
    ):
        assert await webhook.deliver_status(sent) == (200, "ignored")
        assert "Acme/Till" in await _reason(webhook)
    assert await _previews(webhook) == ["pr-7"]
    async with webhook.platform.sessions() as session:
        pushed = select(Deployment.id).where(Deployment.trigger == "push")
        assert (await session.execute(pushed)).all() == []
    assert await webhook.deliver_status(pull(kind, "closed")) == (200, "preview_closed")


async def test_a_delivery_about_another_repository_stores_no_id(webhook: WebhookRepository) -> None:
    assert await webhook.deliver_status(push(webhook.kind, **OTHER)) == (200, "ignored")
    assert await _host_id(webhook) is None
    assert await webhook.deliver_status(push(webhook.kind)) == (202, "queued")
    assert await _host_id(webhook) == _written(webhook.kind, 1)


@pytest.mark.parametrize("now", [RENAMED, MOVED], ids=["renamed", "moved to another owner"])
async def test_the_repository_is_matched_by_id_after_a_rename(
    webhook: WebhookRepository, now: dict[str, Any]
) -> None:
    assert await webhook.deliver_status(pull(webhook.kind)) == (202, "preview_queued")
    assert await webhook.deliver_status(push(webhook.kind, **now)) == (202, "queued")
    assert await webhook.deliver_status(pull(webhook.kind, "closed", **now)) == (200, "preview_closed")
    async with webhook.platform.sessions() as session:
        kept = await session.get_one(Repository, webhook.repository_id)
    # Commit statuses use the new name.
    assert kept.full_name == now["full_name"].lower()


async def test_a_recreated_repository_is_matched_once_its_id_is_set(
    webhook: WebhookRepository,
) -> None:
    await webhook.deliver(push(webhook.kind))
    sent = push(webhook.kind, **RECREATED)
    assert await webhook.deliver_status(sent, "one") == (200, "ignored")
    reason = await _reason(webhook)
    assert "removed and created again" in reason
    assert f"to {_written(webhook.kind, 2)}, and deliver it again." in reason
    await webhook.change(host_id=_written(webhook.kind, 2))
    # Not a duplicate, because the first delivery had no effect.
    assert (await webhook.deliver_status(sent, "one"))[0] == 202
    assert await webhook.deliver_status(push(webhook.kind)) == (200, "ignored")


@pytest.mark.parametrize(
    ("url", "full_name", "sent_name"),
    [
        ("https://github.com/Acme/Shop.git", "acme/shop", "ACME/shop"),
        ("https://github.com/acme/shop/", "acme/shop", "Acme/Shop"),
        ("ssh://git@ssh.github.com:443/acme/shop", "acme/shop", "Acme/Shop"),
        ("git@github-work:acme/shop.git", "acme/shop", "acme/shop"),
    ],
)
async def test_equivalent_urls_match(
    github: WebhookRepository, url: str, full_name: str, sent_name: str
) -> None:
    await github.change(url=url, full_name=full_name)
    assert await github.deliver_status(push("github", full_name=sent_name)) == (202, "queued")


@pytest.mark.parametrize(
    "sent_name", ["acme/shop2", "acme/shop.git", "evil/acme/shop", "acme-shop/shop", "acme/sho", "acme/shop/"]
)
async def test_similar_names_do_not_match(github: WebhookRepository, sent_name: str) -> None:
    assert await github.deliver_status(push("github", full_name=sent_name, host_id=2)) == (200, "ignored")
    assert await _host_id(github) is None


def _of_gitlab_below_a_path(full_name: str, page: str) -> WebhookRequest:
    payload = json.loads(push("gitlab", full_name=full_name).body)
    payload["project"]["web_url"] = f"https://code.example:8443{page}"
    return encode_request("Push Hook", payload)


async def test_a_gitlab_below_a_path(github: WebhookRepository) -> None:
    await github.change_kind("gitlab")
    await github.change(url="https://code.example/git/acme/shop.git", full_name="git/acme/shop")
    # The name of one repository is the path of the other.
    other = _of_gitlab_below_a_path("git/acme/shop", "/git/git/acme/shop")
    assert await github.deliver_status(other) == (200, "ignored")
    assert await github.deliver_status(_of_gitlab_below_a_path("acme/shop", "/git/acme/shop")) == (
        202,
        "queued",
    )
    await github.change(url="git@code.example:acme/shop.git", full_name="acme/shop", host_id=None)
    assert (await github.deliver_status(_of_gitlab_below_a_path("acme/shop", "/git/acme/shop")))[0] == 202


async def test_a_local_folder_matches_any_name_until_an_id_is_set(github: WebhookRepository) -> None:
    await github.change(url="/srv/shop.git", full_name=None)
    assert await github.deliver_status(push("github")) == (202, "queued")
    assert await _host_id(github) is None
    await github.change(host_id="1")
    assert await github.deliver_status(push("github", **OTHER)) == (200, "ignored")
    assert (await github.deliver_status(push("github")))[0] == 202


@pytest.mark.both_databases
async def test_one_of_two_concurrent_deliveries_stores_the_id(github: WebhookRepository) -> None:
    responses = await asyncio.gather(
        *(github.deliver_status(push("github", "develop", host_id=number)) for number in (1, 2, 1, 2))
    )
    known = await _host_id(github)
    assert known in ("1", "2")
    assert [status for _, status in responses].count("ignored") == 2


async def test_a_ping_stores_the_repository_id(github: WebhookRepository) -> None:
    ping = {"zen": "", "hook_id": 1, "repository": {"id": 1, "full_name": "Acme/Shop"}}
    assert await github.deliver_status(encode_request("ping", ping)) == (200, "pong")
    assert await _host_id(github) == "1"
    assert await github.deliver_status(push("github", **RENAMED)) == (202, "queued")
    # A ping without a repository is accepted as well.
    assert await github.deliver_status(encode_request("ping", {"repository": 5})) == (200, "pong")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_push_without_its_repository_is_refused(github: WebhookRepository, kind: str) -> None:
    await github.change_kind(kind)
    sent = push(kind)
    payload = json.loads(sent.body)
    del payload["project" if kind == "gitlab" else "repository"]
    assert await github.deliver_status(encode_request(sent.event, payload)) == (422, "payload-not-usable")


async def test_a_system_hook_of_gitlab_covers_all_projects(github: WebhookRepository) -> None:
    await github.change_kind("gitlab")

    def system(sent: WebhookRequest) -> WebhookRequest:
        payload = json.loads(sent.body)
        if "checkout_sha" in payload:
            payload["event_name"] = payload.pop("object_kind")
            payload["project_id"] = payload["project"].pop("id")
        return WebhookRequest("System Hook", json.dumps(payload).encode())

    assert await github.deliver_status(system(pull("gitlab"))) == (202, "preview_queued")
    assert await github.deliver_status(system(pull("gitlab", "closed", **OTHER))) == (200, "ignored")
    assert await github.deliver_status(system(push("gitlab", **OTHER))) == (200, "ignored")
    assert await github.deliver_status(system(push("gitlab"))) == (202, "queued")


async def test_a_signed_delivery_about_another_repository_deploys_nothing(webhook: WebhookRepository) -> None:
    assert await attack(webhook) == (1, 0)

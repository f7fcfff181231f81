"""Webhooks as an operator looks at them, on both databases."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from control_domain.projects.operations import create_project
from control_domain.tables.deployments import Deployment
from control_domain.tables.repositories import Repository
from control_domain.tables.webhooks import WaitingPush, WebhookDelivery
from control_domain.webhooks.deliveries import Delivery
from tests.support.managed_project import NOW, REVISION, ManagedProject

PUSH = {
    "ref": "refs/heads/main",
    "before": "f" * 40,
    "after": REVISION,
    "repository": {"id": 15, "full_name": "acme/shop"},
    "head_commit": {"message": "Blåbær"},
    "pusher": {"name": "ada"},
}
HEADERS = {"x-github-event": ["push"], "x-hub-signature-256": ["sha256=hunter2"], "accept": ["a", "b"]}
WORKFLOW = "version: 1\nprocesses: {web: {command: serve}}\ntriggers: {push: {main: production}}\n"


async def _keep(
    managed: ManagedProject, body: bytes = b"{}", *, repository_id: int | None = None, **answer: Any
) -> int:
    """A delivery of the repository, as the webhook's route keeps one; gives its number."""
    number = managed.repository.id if repository_id is None else repository_id
    delivery = Delivery(number or None, "github", answer.pop("event", "push"), HEADERS, body, id="a-b-c")
    answer = {"is_first": False, "http_status": 202, "answer": "queued", **answer}
    async with managed.engines.sessions() as session, session.begin():
        row = WebhookDelivery(**delivery.to_row(NOW) | answer)
        session.add(row)
        await session.flush()
        return row.id


async def test_deliveries_are_listed_newest_first(managed: ManagedProject) -> None:
    queued = await _keep(managed, deployment_id=7)
    refused = await _keep(managed, http_status=409, answer="repository-not-ready", reason="It is locked.")
    of_app = await _keep(managed, repository_id=0, event="installation", answer="handled", http_status=200)
    listed = await managed.act("webhooks/list")
    assert [one["id"] for one in listed] == [of_app, refused, queued]
    assert listed[2] == {
        "id": queued,
        "received_at": "2026-11-18T12:00:00.000Z",
        "repository": {"id": managed.repository.id, "url": "https://git.example/shop.git"},
        "project": "shop",
        "kind": "github",
        "event": "push",
        "delivery": "a-b-c",
        "http_status": 202,
        "status": "queued",
        "deployment_id": 7,
        "reason": None,
        "replay_of": None,
    }
    assert (listed[1]["http_status"], listed[1]["reason"]) == (409, "It is locked.")
    assert (listed[0]["repository"], listed[0]["project"], listed[0]["status"]) == (None, None, "handled")
    assert [one["id"] for one in await managed.act("webhooks/list", limit=2)] == [of_app, refused]
    for limit in (0, 1001):
        line = await managed.expect_refusal("webhooks/list", limit=limit)
        assert line == f"{limit} deliveries cannot be listed: ask for 1 to 1,000."


@pytest.mark.both_databases
async def test_deliveries_of_disconnected_repositories_are_listed(managed: ManagedProject) -> None:
    before = managed.repository.id
    kept = await _keep(managed)
    await managed.act("repositories/disconnect", id=before)
    other = await managed.act("repositories/connect", url="git@github.com:acme/shop.git")
    await _keep(managed, repository_id=other["id"])
    listed = await managed.act("webhooks/list", repository_id=before)
    assert [(one["id"], one["repository"]["id"], one["project"]) for one in listed] == [
        (kept, before, "shop")
    ]
    assert (await managed.expect_refusal("webhooks/list", repository_id=99)).startswith(
        "There is no repository 99;"
    )


async def test_a_delivery_is_shown_with_its_request(managed: ManagedProject) -> None:
    body = json.dumps(PUSH, ensure_ascii=False).encode()
    number = await _keep(managed, body)
    told = await managed.act("webhooks/show", id=number)
    assert told["headers"] == {**HEADERS, "x-hub-signature-256": ["[redacted]"]}
    assert told["body"] == body.decode()
    assert {name: told[name] for name in told if name not in ("headers", "body")} == (
        await managed.act("webhooks/list")
    )[0]
    # Of one that was refused, the body may be anything.
    number = await _keep(managed, b"\xff\x00{", http_status=422, answer="payload-not-usable")
    assert (await managed.act("webhooks/show", id=number))["body"] == "\ufffd\x00{"
    line = await managed.expect_refusal("webhooks/show", id=99)
    assert line == "No delivery 99 is kept; `pharos webhooks list` shows those of the last 7 days."


@pytest.mark.both_databases
async def test_a_delivery_is_replayed(managed: ManagedProject) -> None:
    await managed.change(Repository, managed.repository.id, host_id="15")
    await managed.act("workflows/set", text=WORKFLOW)
    number = await _keep(managed, json.dumps(PUSH).encode(), http_status=409, answer="repository-not-ready")
    told = await managed.act("webhooks/replay", id=number)
    (listed, _) = await managed.act("webhooks/list")
    assert told == listed
    assert (told["status"], told["http_status"], told["replay_of"]) == ("queued", 202, number)
    assert (await managed.deployment(told["deployment_id"])).pushed_revision == REVISION
    # It is judged anew each time: the deployment of this push is still to begin.
    again = await managed.act("webhooks/replay", id=number)
    assert (again["status"], again["deployment_id"]) == ("queued", told["deployment_id"])
    assert await managed.count(Deployment) == 1


async def test_a_replay_needs_the_variables_key_once_the_delivery_is_found(managed: ManagedProject) -> None:
    number = await _keep(managed)
    managed.engines = replace(managed.engines, variable_keys=None)
    assert (await managed.expect_refusal("webhooks/replay", id=99)).startswith("No delivery 99 is kept;")
    assert "PHAROS_VARIABLES_KEY" in await managed.expect_refusal("webhooks/replay", id=number)


async def test_invalid_replays_are_refused(managed: ManagedProject) -> None:
    await managed.change(Repository, managed.repository.id, host_id="15")
    assert (await managed.expect_refusal("webhooks/replay", id=99)).startswith("No delivery 99 is kept;")
    number = await _keep(managed, json.dumps(PUSH).encode())
    # Nothing says yet what a push deploys.
    await managed.expect_refusal("webhooks/replay", id=number)
    await managed.act("workflows/set", text=WORKFLOW)
    await managed.act("repositories/disconnect", id=managed.repository.id)
    await managed.expect_refusal("webhooks/replay", id=number)
    assert await managed.count(WebhookDelivery) == 1


@pytest.mark.both_databases
@pytest.mark.parametrize("revision", [REVISION, None])
async def test_waiting_pushes_are_listed_oldest_first(managed: ManagedProject, revision: str | None) -> None:
    assert await managed.act("webhooks/waiting") == []
    async with managed.engines.sessions() as session, session.begin():
        for minutes, branch in ((0, "newer"), (5, "older")):
            waiting = WaitingPush(
                environment_id=managed.environment.id,
                repository_id=managed.repository.id,
                branch=branch,
                trigger="push",
                pushed_revision=revision,
                source="webhook",
                created_at=NOW - timedelta(minutes=minutes),
            )
            session.add(waiting)
            await session.flush()
    older, newer = await managed.act("webhooks/waiting")
    assert newer["branch"] == "newer"
    assert older == {
        "environment": "production",
        "project": "shop",
        "branch": "older",
        "revision": revision,
        "trigger": "push",
        "since": "2026-11-18T11:55:00.000Z",
    }


async def test_deliveries_of_several_projects_say_which(managed: ManagedProject) -> None:
    async with managed.engines.sessions() as session, session.begin():
        project = await create_project(session, managed.account, "Blog", "blog", NOW)
        other = Repository(project_id=project.id, kind="gitlab", url="/srv/b", branch="main", created_at=NOW)
        session.add(other)
        await session.flush()
    await _keep(managed)
    await _keep(managed, repository_id=other.id)
    assert [one["project"] for one in await managed.act("webhooks/list")] == ["blog", "shop"]

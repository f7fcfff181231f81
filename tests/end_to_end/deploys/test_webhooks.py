"""Webhooks of a Git host: pushes deploy, pull requests get previews, and nothing happens twice."""

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.installation import Installation, find_processes
from tests.support.waits import wait_until
from tests.support.webhook_app import SKIP, WebhookApp, create_webhook_app
from tests.support.webhooks import push

_AT_ONCE = 100


@pytest.fixture(scope="module")
def deploy_settings() -> Mapping[str, str]:
    return {"PHAROS_DEPLOY_DRAIN_SECONDS": "1"}


@pytest.fixture(scope="module")
def created(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> WebhookApp:
    app = create_webhook_app(installation, tmp_path_factory.mktemp("webhook"))
    app.push_and_wait("the first")
    return app


@pytest.fixture
def webhook_app(created: WebhookApp) -> Iterator[WebhookApp]:
    """The application with a live release, and no deployment in progress."""
    created.close_gate()
    yield created
    created.gate.touch()
    wait_until(created.is_idle, 120)


def test_a_push_is_deployed_and_answers(webhook_app: WebhookApp) -> None:
    output = webhook_app.push("pushed")
    assert output.status == (202, "queued")
    done = webhook_app.app.wait_finished(output.deployment)
    assert (done.status, webhook_app.fetch()) == (
        "succeeded",
        (200, "pushed shown=to everybody hidden=from previews"),
    )
    commit = webhook_app.tips["main"]
    assert done.texts[0] == f"Queued: main at {commit[:7]}, pushed by ada."
    shown = webhook_app.installation.call("GET", f"deployments/{output.deployment}").json["data"]
    assert (shown["trigger"], shown["ref"], shown["revision"]) == ("push", "main", commit)


def test_push_with_the_skip_mark_deploys_nothing(webhook_app: WebhookApp) -> None:
    before = webhook_app.deployment_numbers()
    output = webhook_app.push("left out", message=f"Spelling {SKIP}")
    assert (output.status, webhook_app.deployment_numbers()) == ((200, "skipped"), before)


def test_only_the_newest_push_during_a_deploy_is_deployed_after_it(webhook_app: WebhookApp) -> None:
    before = webhook_app.deployment_numbers()
    first = webhook_app.push("waits", waits=True)
    assert first.status == (202, "queued")
    webhook_app.wait_built()
    for number in range(3):
        output = webhook_app.push(f"push {number}")
        assert (output.http_status, output.body) == (202, {"status": "waiting"})
    webhook_app.gate.touch()
    wait_until(lambda: webhook_app.page() == "push 2")
    wait_until(webhook_app.is_idle)
    new = webhook_app.deployment_numbers()[len(before) :]
    assert (len(new), new[0]) == (2, first.deployment)
    assert [webhook_app.app.status(number) for number in new] == ["succeeded", "succeeded"]
    shown = webhook_app.installation.call("GET", f"deployments/{new[1]}").json["data"]
    assert (shown["trigger"], shown["revision"]) == ("push", webhook_app.tips["main"])


def test_a_preview_opens_changes_and_closes_with_its_pull_request(webhook_app: WebhookApp) -> None:
    production = webhook_app.fetch()
    assert webhook_app.fetch("pr-7")[0] == 404

    webhook_app.commit("a basket", "basket")
    opened = webhook_app.pull("opened", 7, "basket")
    assert opened.status == (202, "preview_queued")
    done = webhook_app.app.wait_finished(opened.deployment)
    assert done.status == "succeeded", done
    # Protected variables are missing.
    assert webhook_app.fetch("pr-7") == (200, "a basket shown=to everybody hidden=none")

    webhook_app.commit("a larger basket", "basket")
    updated = webhook_app.pull("updated", 7, "basket")
    assert updated.status == (202, "preview_updated")
    assert webhook_app.app.wait_finished(updated.deployment).status == "succeeded"
    assert webhook_app.fetch("pr-7") == (200, "a larger basket shown=to everybody hidden=none")

    users = webhook_app.user_ids("pr-7")
    assert find_processes(users) != []
    assert webhook_app.pull("closed", 7, "basket").status == (200, "preview_closed")
    wait_until(lambda: webhook_app.fetch("pr-7")[0] == 404)
    wait_until(lambda: find_processes(users) == [])
    listed = webhook_app.installation.run_json("environment", "list", "--project", webhook_app.app.project)
    assert [one["slug"] for one in listed] == ["production"]
    assert webhook_app.fetch() == production


def test_a_pull_request_closed_while_its_preview_builds_leaves_nothing(webhook_app: WebhookApp) -> None:
    webhook_app.commit("never", "early", waits=True)
    opened = webhook_app.pull("opened", 8, "early")
    wait_until(lambda: "Build step 1 of 1: sh build.sh" in webhook_app.app.texts(opened.deployment))
    users = webhook_app.user_ids("pr-8")
    wait_until(lambda: find_processes(users) != [])
    assert webhook_app.pull("closed", 8, "early").status == (200, "preview_closed")
    assert webhook_app.app.status(opened.deployment) == "canceled"
    wait_until(lambda: find_processes(users) == [])
    wait_until(lambda: webhook_app.fetch("pr-8")[0] == 404)
    assert webhook_app.installation.rows("SELECT slug FROM environments") == [("production",)]


def test_after_a_rollback_pushes_do_not_deploy_until_resumed(webhook_app: WebhookApp) -> None:
    good = webhook_app.push_and_wait("good").number
    webhook_app.push_and_wait("bad")
    answer = webhook_app.installation.call("POST", f"deployments/{good}/rollback")
    assert webhook_app.app.wait_finished(answer.json["data"]["id"]).status == "succeeded"
    assert webhook_app.page() == "good"

    before = webhook_app.deployment_numbers()
    assert webhook_app.push("worse").status == (200, "ignored")
    assert (webhook_app.deployment_numbers(), webhook_app.page()) == (before, "good")

    assert webhook_app.installation.run_json("environment", "resume", webhook_app.app.name)["resumed"] is True
    # The ignored push is not deployed later; the next push is.
    assert webhook_app.deployment_numbers() == before
    webhook_app.push_and_wait("mended")


def test_a_delivery_received_a_hundred_times_at_once_is_deployed_once(webhook_app: WebhookApp) -> None:
    before = webhook_app.deployment_numbers()
    parent, commit = webhook_app.commit("once")
    sent = push("github", before=parent, after=commit)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        output = list(threads.map(lambda _: webhook_app.deliver(sent, "the same"), range(_AT_ONCE)))
    assert Counter(one.status for one in output) == {(202, "queued"): 1, (200, "duplicate"): _AT_ONCE - 1}
    wait_until(lambda: webhook_app.page() == "once")
    wait_until(webhook_app.is_idle)
    assert len(webhook_app.deployment_numbers()) == len(before) + 1


def test_a_waiting_push_survives_a_killed_platform(webhook_app: WebhookApp) -> None:
    before = webhook_app.deployment_numbers()
    assert webhook_app.push("killed", waits=True).status == (202, "queued")
    webhook_app.wait_built()
    assert webhook_app.push("after the kill").status == (202, "waiting")
    webhook_app.installation.platform.kill()
    webhook_app.gate.touch()
    webhook_app.installation.start()
    wait_until(lambda: webhook_app.app.is_up() and webhook_app.page() == "after the kill", 120)
    wait_until(webhook_app.is_idle)
    new = webhook_app.deployment_numbers()[len(before) :]
    assert [webhook_app.app.status(number) for number in new] == ["succeeded", "succeeded"]

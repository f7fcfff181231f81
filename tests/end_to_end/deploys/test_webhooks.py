"""Webhooks of a Git host: pushes deploy, pull requests get previews, and nothing happens twice."""

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.deploying import Deploying, processes_of, wait_until
from tests.support.hooked_app import SKIP, HookedApp, new_hooked_app
from tests.support.webhooks import push

_AT_ONCE = 100


@pytest.fixture(scope="module")
def deploy_settings() -> Mapping[str, str]:
    return {"PHAROS_DEPLOY_DRAIN_SECONDS": "1"}


@pytest.fixture(scope="module")
def created(installation: Deploying, tmp_path_factory: pytest.TempPathFactory) -> HookedApp:
    app = new_hooked_app(installation, tmp_path_factory.mktemp("hooked"))
    app.bring("the first")
    return app


@pytest.fixture
def hooked(created: HookedApp) -> Iterator[HookedApp]:
    """The application with a live release, and no deployment in progress."""
    created.close_gate()
    yield created
    created.gate.touch()
    wait_until(created.is_idle, 120)


def test_a_push_is_deployed_and_answers(hooked: HookedApp) -> None:
    output = hooked.push("pushed")
    assert output.status == (202, "queued")
    done = hooked.app.finish(output.deployment)
    assert (done.status, hooked.answer()) == (
        "succeeded",
        (200, "pushed shown=to everybody hidden=from previews"),
    )
    commit = hooked.tips["main"]
    assert done.texts[0] == f"Queued: main at {commit[:7]}, pushed by ada."
    shown = hooked.where.call("GET", f"deployments/{output.deployment}").json["data"]
    assert (shown["trigger"], shown["ref"], shown["revision"]) == ("push", "main", commit)


def test_a_push_that_asks_to_be_skipped_deploys_nothing(hooked: HookedApp) -> None:
    before = hooked.numbers()
    output = hooked.push("left out", message=f"Spelling {SKIP}")
    assert (output.status, hooked.numbers()) == ((200, "skipped"), before)


def test_only_the_newest_push_during_a_deploy_is_deployed_after_it(hooked: HookedApp) -> None:
    before = hooked.numbers()
    first = hooked.push("waits", waits=True)
    assert first.status == (202, "queued")
    hooked.wait_built()
    for number in range(3):
        output = hooked.push(f"push {number}")
        assert (output.http_status, output.body) == (202, {"status": "waiting"})
    hooked.gate.touch()
    wait_until(lambda: hooked.page() == "push 2")
    wait_until(hooked.is_idle)
    new = hooked.numbers()[len(before) :]
    assert (len(new), new[0]) == (2, first.deployment)
    assert [hooked.app.status(number) for number in new] == ["succeeded", "succeeded"]
    shown = hooked.where.call("GET", f"deployments/{new[1]}").json["data"]
    assert (shown["trigger"], shown["revision"]) == ("push", hooked.tips["main"])


def test_a_preview_opens_changes_and_closes_with_its_pull_request(hooked: HookedApp) -> None:
    production = hooked.answer()
    assert hooked.answer("pr-7")[0] == 404

    hooked.commit("a basket", "basket")
    opened = hooked.pull("opened", 7, "basket")
    assert opened.status == (202, "preview_queued")
    done = hooked.app.finish(opened.deployment)
    assert done.status == "succeeded", done
    # Protected variables are missing.
    assert hooked.answer("pr-7") == (200, "a basket shown=to everybody hidden=none")

    hooked.commit("a larger basket", "basket")
    updated = hooked.pull("updated", 7, "basket")
    assert updated.status == (202, "preview_updated")
    assert hooked.app.finish(updated.deployment).status == "succeeded"
    assert hooked.answer("pr-7") == (200, "a larger basket shown=to everybody hidden=none")

    users = hooked.users("pr-7")
    assert processes_of(users) != []
    assert hooked.pull("closed", 7, "basket").status == (200, "preview_closed")
    wait_until(lambda: hooked.answer("pr-7")[0] == 404)
    wait_until(lambda: processes_of(users) == [])
    listed = hooked.where.operate("environment", "list", "--project", hooked.app.project)
    assert [one["slug"] for one in listed] == ["production"]
    assert hooked.answer() == production


def test_a_pull_request_closed_while_its_preview_builds_leaves_nothing(hooked: HookedApp) -> None:
    hooked.commit("never", "early", waits=True)
    opened = hooked.pull("opened", 8, "early")
    wait_until(lambda: "Build step 1 of 1: sh build.sh" in hooked.app.texts(opened.deployment))
    users = hooked.users("pr-8")
    wait_until(lambda: processes_of(users) != [])
    assert hooked.pull("closed", 8, "early").status == (200, "preview_closed")
    assert hooked.app.status(opened.deployment) == "canceled"
    wait_until(lambda: processes_of(users) == [])
    wait_until(lambda: hooked.answer("pr-8")[0] == 404)
    assert hooked.where.rows("SELECT slug FROM environments") == [("production",)]


def test_after_a_rollback_pushes_do_not_deploy_until_resumed(hooked: HookedApp) -> None:
    good = hooked.bring("good").number
    hooked.bring("bad")
    answer = hooked.where.call("POST", f"deployments/{good}/rollback")
    assert hooked.app.finish(answer.json["data"]["id"]).status == "succeeded"
    assert hooked.page() == "good"

    before = hooked.numbers()
    assert hooked.push("worse").status == (200, "ignored")
    assert (hooked.numbers(), hooked.page()) == (before, "good")

    assert hooked.where.operate("environment", "resume", hooked.app.name)["resumed"] is True
    # The ignored push is not deployed later; the next push is.
    assert hooked.numbers() == before
    hooked.bring("mended")


def test_a_delivery_received_a_hundred_times_at_once_is_deployed_once(hooked: HookedApp) -> None:
    before = hooked.numbers()
    parent, commit = hooked.commit("once")
    sent = push("github", before=parent, after=commit)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        output = list(threads.map(lambda _: hooked.deliver(sent, "the same"), range(_AT_ONCE)))
    assert Counter(one.status for one in output) == {(202, "queued"): 1, (200, "duplicate"): _AT_ONCE - 1}
    wait_until(lambda: hooked.page() == "once")
    wait_until(hooked.is_idle)
    assert len(hooked.numbers()) == len(before) + 1


def test_a_waiting_push_survives_a_killed_platform(hooked: HookedApp) -> None:
    before = hooked.numbers()
    assert hooked.push("killed", waits=True).status == (202, "queued")
    hooked.wait_built()
    assert hooked.push("behind the kill").status == (202, "waiting")
    hooked.where.platform.kill()
    hooked.gate.touch()
    hooked.where.start()
    wait_until(lambda: hooked.app.is_up() and hooked.page() == "behind the kill", 120)
    wait_until(hooked.is_idle)
    new = hooked.numbers()[len(before) :]
    assert [hooked.app.status(number) for number in new] == ["succeeded", "succeeded"]

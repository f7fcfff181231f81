"""A Node application from its repository to its responses, with a workflow of its project."""

import time
from pathlib import Path

import aiohttp
import pytest

from tests.support.deployed_apps import NODE_WORKFLOW, node_app, step_seconds
from tests.support.installation import App, Installation
from tests.support.repositories import Repository
from tests.support.waits import wait_until


@pytest.fixture(scope="module")
def app(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> App:
    folder = tmp_path_factory.mktemp("node")
    repository = Repository(folder / "app.git")
    repository.commit(node_app())
    created = installation.create_app("Node", repository)
    created.set_variables("AUDIENCE=sailors\n")
    (folder / "workflow.yaml").write_text(NODE_WORKFLOW)
    installation.run_json("workflow", "set", str(folder / "workflow.yaml"), "--project", created.project)
    began = time.monotonic()
    number = created.deploy()
    wait_until(lambda: created.get()[0] == 200, 120, lambda: created.texts(number))
    took = time.monotonic() - began
    done = created.wait_finished(number)
    assert done.status == "succeeded", done
    own = step_seconds(done.texts)
    print(
        f"\nNode app: {took * 1000:.0f} ms from 202 to the first answer, {own * 1000:.0f} ms of it its steps'"
    )
    return created


def test_the_application_answers(app: App) -> None:
    assert app.get() == (200, "Hello sailors built")
    assert app.request("POST", "/orders", b"x" * 2_000_000) == (201, b"x" * 2_000_000)
    assert app.get("/nothing") == (404, "the app has no such page")
    wait_until(lambda: app.get("/worker") == (200, "worked for sailors"))
    both = [("web", "running"), ("worker", "running")]
    # Instances are recorded a little after they respond.
    wait_until(
        lambda: [(one["process"], one["state"]) for one in app.instances()] == both, describe=app.instances
    )


async def test_a_websocket_works_in_both_directions(app: App) -> None:
    address = f"http://127.0.0.1:{app.installation.apps_port}/socket"
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(address, headers={"Host": app.host}) as socket,
    ):
        for text in ("ahoy", "moin"):
            await socket.send_str(text)
            assert await socket.receive_str(timeout=60) == text.upper()
        await socket.close()
        assert socket.close_code == 1000


def test_the_previous_release_answers_until_the_new_one_does(app: App, tmp_path: Path) -> None:
    """Every request during the deployment is answered by one of the two releases."""
    app.repository.commit({**node_app(), "greeting/index.js": "module.exports = () => 'Second';\n"})
    number = app.deploy()
    answers: list[tuple[int, str]] = []
    while not answers or answers[-1] != (200, "Second built"):
        answers.append(app.get())
    assert set(answers) == {(200, "Hello sailors built"), (200, "Second built")}
    assert app.wait_finished(number).status == "succeeded"
    wait_until(lambda: {one["deployment_id"] for one in app.instances()} == {number}, describe=app.instances)

"""A Python application from its repository to its responses."""

import http.client
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.support.deployed_apps import PYTHON_WORKFLOW, python_app, shell_app, step_seconds
from tests.support.installation import App, Installation
from tests.support.repositories import Repository
from tests.support.waits import wait_until


@pytest.fixture(scope="module")
def app(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> App:
    """The application, deployed by the workflow of its repository."""
    repository = Repository(tmp_path_factory.mktemp("python") / "app.git")
    repository.commit(python_app())
    created = installation.create_app("Python", repository)
    created.set_variables("AUDIENCE=the world\n")
    began = time.monotonic()
    number = created.deploy()
    wait_until(lambda: created.get()[0] == 200, 120, lambda: created.texts(number))
    took = time.monotonic() - began
    done = created.wait_finished(number)
    assert done.status == "succeeded", done
    own = step_seconds(done.texts)
    print(
        f"\nPython app: {took * 1000:.0f} ms from 202 to the first answer, {own * 1000:.0f} ms of it its steps'"
    )
    return created


def test_the_application_answers(app: App) -> None:
    assert app.get() == (200, "Hello the world")
    assert app.request("POST", "/orders", b"a body of bytes \0\xff") == (201, b"\xff\0 setyb fo ydob a")
    assert app.get("/nothing") == (404, "the app has no such page")
    # Written by the worker, in the home folder that both processes share.
    wait_until(lambda: app.get("/worker") == (200, "worked for the world"))
    both = [("web", "running"), ("worker", "running")]
    # Instances are recorded a little after they respond.
    wait_until(
        lambda: [(one["process"], one["state"]) for one in app.instances()] == both, describe=app.instances
    )


def test_server_sent_events_are_not_buffered(app: App) -> None:
    with closing(
        http.client.HTTPConnection("127.0.0.1", app.installation.apps_port, timeout=60)
    ) as connection:
        connection.request("GET", "/events", headers={"Host": app.host})
        with connection.getresponse() as response:
            assert response.getheader("Content-Type") == "text/event-stream"
            assert (response.readline(), response.readline()) == (b"data: one\n", b"\n")
            # The application sends the second event only now.
            (app.home / "run" / "seen").touch()
            assert response.read() == b"data: two\n\n"


def test_the_log_lists_each_step(app: App) -> None:
    done = app.installation.call("GET", "deployments").json["data"]
    first = min(one["id"] for one in done if one["environment_id"] == app.id)
    texts = app.texts(first)
    for expected in (
        "Build step 1 of 1: sh build.sh",
        "Release step 1 of 1",
        "prepares the database of •••",
        "Live",
    ):
        assert any(expected in text for text in texts), (expected, texts)
    log = app.installation.call("GET", f"deployments/{first}/log").json["data"]
    assert [line["text"] for line in log["lines"]] == texts


# Other tests of this folder deploy branches as well.
@pytest.mark.parametrize("kind", [pytest.param("branch", marks=pytest.mark.full), "tag", "commit"])
def test_branches_tags_and_commits_are_deployed(app: App, kind: str) -> None:
    commit = app.repository.commit(python_app(f"Ahoy {kind}"), f"feature/{kind}")
    app.repository.tag(f"v-{kind}", commit)
    app.deploy_live({"branch": "feature/branch", "tag": "v-tag", "commit": commit}[kind])
    assert app.get() == (200, f"Ahoy {kind} the world")


def test_a_missing_branch_keeps_the_live_release(app: App) -> None:
    before = app.get()
    done = app.deploy_and_wait("no-such-branch")
    assert (done.status, "no-such-branch" in done.last) == ("failed", True), done
    assert app.get() == before


def test_a_workflow_of_the_project_overrides_that_of_the_repository(app: App, tmp_path: Path) -> None:
    document = tmp_path / "workflow.yaml"
    document.write_text(
        PYTHON_WORKFLOW.replace("    - sh build.sh", "    - echo set by hand\n    - sh build.sh")
    )
    app.installation.run_json("workflow", "set", str(document), "--project", app.project)
    assert "set by hand" in app.deploy_live().texts


@contextmanager
def _following(app: App, deployment: int) -> "Iterator[subprocess.Popen[str]]":
    """Start `curl -N` on the live log."""
    token = app.installation.platform.credentials["api_token"]
    address = f"http://127.0.0.1:{app.installation.platform.port}/api/v1/deployments/{deployment}/log"
    headers = ["-H", f"Authorization: Bearer {token}", "-H", "Accept: text/event-stream"]
    with subprocess.Popen(["curl", "-sN", *headers, address], stdout=subprocess.PIPE, text=True) as curl:
        try:
            yield curl
        finally:
            curl.kill()


def test_the_log_streams_while_a_step_runs(installation: Installation, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "app.git")
    # The step continues when the test has read its first line.
    step = 'echo "line one"; until [ -e "$HOME/go" ]; do sleep 0.02; done; echo "line two"; exit 3\n'
    repository.commit(shell_app("true", build=step))
    app = installation.create_app("Streaming", repository)
    number = app.deploy()
    with _following(app, number) as curl:
        assert curl.stdout is not None
        seen = []
        for line in curl.stdout:
            seen.append(line)
            if '"line one"' in line:
                assert app.status(number) == "deploying"
                assert "line two" not in app.texts(number)
                (app.home / "build" / "go").touch()
        assert curl.wait(60) == 0
    heard = "".join(seen)
    assert heard.index("line one") < heard.index("line two") < heard.index("ended with status 3")
    assert os.path.exists(app.home / "build" / "go")
    assert app.wait_finished(number).status == "failed"

"""The lifecycle of an environment after its first deployment: hibernated, woken, rolled back, restarted, removed."""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.deployed_apps import page_app, shell_app
from tests.support.installation import App, Installation, find_processes
from tests.support.repositories import Repository
from tests.support.waits import wait_until


@pytest.fixture(scope="module")
def deploy_settings() -> Mapping[str, str]:
    return {"PHAROS_DEPLOY_DRAIN_SECONDS": "1"}


@pytest.fixture(scope="module")
def app(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> App:
    """The application with one release."""
    repository = Repository(tmp_path_factory.mktemp("life") / "app.git")
    repository.commit(page_app("first"))
    created = installation.create_app("Life", repository)
    created.deploy_live()
    return created


def _web(app: App) -> dict[str, Any]:
    """Return the only process once it is recorded, shortly after it responds."""

    def is_told() -> bool:
        output = [(one["state"], one["pid"] in app.runners()) for one in app.instances()]
        return output == [("running", True)]

    wait_until(is_told, describe=app.instances)
    (web,) = app.instances()
    return web


def test_a_cancelled_build_ends_at_once_and_leaves_nothing(app: App) -> None:
    before = app.artefacts()
    app.repository.commit(
        page_app("never", build='trap "" TERM; sleep 1000 & touch "$HOME/begun"; sleep 1000'), "slow"
    )
    number = app.deploy("slow")
    wait_until((app.home / "build" / "begun").exists)
    assert len(app.builders()) >= 2
    began = time.monotonic()
    app.installation.run_json("cancel", str(number), "--yes")
    done = app.wait_finished(number)
    wait_until(lambda: app.builders() == [])
    print(f"\na cancelled build was gone after {time.monotonic() - began:.1f} s")
    assert done.status == "canceled", done
    wait_until(lambda: app.artefacts() == before)
    assert app.get() == (200, "first")
    app.deploy_live()


def test_a_hibernated_environment_responds_so_until_it_is_woken(app: App) -> None:
    app.installation.run_json("environment", "hibernate", app.name)
    wait_until(lambda: app.get()[0] == 503)
    wait_until(lambda: app.runners() == [])
    assert app.get()[0] == 503
    app.installation.run_json("environment", "wake", app.name)
    wait_until(lambda: app.get() == (200, "first"))


def test_the_first_request_wakes_an_environment_and_is_answered(app: App) -> None:
    app.installation.run_json("environment", "set", app.name, "--wake-on-request", "on")
    app.installation.run_json("environment", "hibernate", app.name)
    wait_until(lambda: app.runners() == [])
    began = time.monotonic()
    assert app.get() == (200, "first")
    print(f"\nthe request that woke the environment was answered after {time.monotonic() - began:.1f} s")
    assert app.installation.run_json("environment", "show", app.name)["state"] == "running"


def test_a_crashed_process_is_started_again(app: App) -> None:
    os.kill(_web(app)["pid"], signal.SIGKILL)
    assert app.get() == (200, "first")

    def is_again() -> bool:
        return [(one["state"], one["restarts"]) for one in app.instances()] == [("running", 1)]

    wait_until(is_again)


@pytest.mark.timeout(600)
def test_the_newest_releases_are_retained_for_rollback(installation: Installation, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "app.git")
    app = installation.create_app("Retained", repository)
    before = app.artefacts() if (installation.folder / "artefacts").exists() else set()
    numbers = []
    for page in range(3):
        files = page_app(f"page {page}")
        repository.commit({**files, "pharos.yaml": f"{files['pharos.yaml']}retain: 2\n"})
        numbers.append(app.deploy_live().number)
    assert app.get() == (200, "page 2")
    wait_until(lambda: app.artefacts() - before == {str(number) for number in numbers[1:]}, 30, app.artefacts)

    refused = installation.call("POST", f"deployments/{numbers[0]}/rollback")
    assert refused.status == 422, refused.json

    answer = installation.call("POST", f"deployments/{numbers[1]}/rollback")
    assert answer.status == 202, answer.json
    done = app.wait_finished(answer.json["data"]["id"])
    assert done.status == "succeeded", done
    assert app.get() == (200, "page 1")
    assert not any("Build step" in text for text in done.texts), done


def test_a_restart_restores_the_live_release(app: App) -> None:
    """It also restarts a build that was in progress."""
    step = 'if [ -e "$HOME/interrupted" ]; then exit 0; fi; touch "$HOME/interrupted"; sleep 1000'
    app.repository.commit(page_app("after the restart", build=step), "interrupted")
    number = app.deploy("interrupted")
    wait_until((app.home / "build" / "interrupted").exists)
    app.installation.restart()
    wait_until(app.is_up)
    done = app.wait_finished(number)
    assert done.status == "succeeded", done
    assert app.get() == (200, "after the restart")


def test_a_restarted_platform_adopts_the_processes_of_a_killed_one(app: App) -> None:
    before = _web(app)
    app.installation.platform.kill()
    app.installation.start()
    wait_until(app.is_up)
    now = _web(app)
    assert now["pid"] == before["pid"], "the running processes were not adopted"


def test_a_build_of_a_killed_platform_is_ended_and_restarted(app: App) -> None:
    step = 'n=$(ls "$HOME" | grep -c attempt); touch "$HOME/attempt$n"; [ $n -gt 0 ] || sleep 1000 & wait $!'
    app.repository.commit(page_app("second attempt", build=step), "killed")
    number = app.deploy("killed")
    wait_until((app.home / "build" / "attempt0").exists)
    first = set(app.builders())
    app.installation.platform.kill()
    app.installation.start()
    wait_until(lambda: not first & set(app.builders()))
    done = app.wait_finished(number)
    assert done.status == "succeeded", done
    assert app.get() == (200, "second attempt")
    assert app.builders() == []


def test_an_environment_removed_while_it_builds_leaves_no_process(
    installation: Installation, tmp_path: Path
) -> None:
    repository = Repository(tmp_path / "app.git")
    repository.commit(page_app("never", build='touch "$HOME/begun"; sleep 1000'))
    app = installation.create_app("Removed early", repository)
    number = app.deploy()
    wait_until((app.home / "build" / "begun").exists)
    done = installation.platform.run("environment", "remove", app.name, "--yes")
    if done.returncode:
        # The command may first require that the deployment is canceled.
        assert str(number) in done.stderr
        installation.run_json("cancel", str(number), "--yes")
        installation.run_json("environment", "remove", app.name, "--yes")
    wait_until(lambda: app.builders() == [])
    # Its folders are removed by the next sweep, within a minute.


def test_nothing_is_left_of_a_removed_environment(installation: Installation, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "app.git")
    repository.commit(shell_app("python3 -u -m http.server --bind 127.0.0.1 $PORT & wait"))
    app = installation.create_app("Removed", repository)
    number = app.deploy_live().number
    uids = range(app.first_uid, app.first_uid + 2)
    assert find_processes(uids) != []
    installation.run_json("environment", "remove", app.name, "--yes")
    wait_until(lambda: find_processes(uids) == [])
    folder = installation.folder
    places = [folder / "artefacts" / str(number), app.home, app.outputs]
    # Less than the minute between sweeps, so none is needed.
    wait_until(
        lambda: not any(place.exists() for place in places), 30, lambda: [p for p in places if p.exists()]
    )
    assert app.get()[0] == 404


def test_changes_of_the_live_release_do_not_wait_for_a_build(app: App) -> None:
    app.installation.run_json("environment", "set", app.name, "--wake-on-request", "off")
    app.repository.commit(
        page_app("later", build='touch "$HOME/later"; while [ ! -e "$HOME/go" ]; do sleep 0.1; done')
    )
    number = app.deploy()
    home = app.home / "build"
    # At once, possibly in the same poll as the deployment.
    app.installation.run_json("environment", "scale", app.name, "2")
    wait_until((home / "later").exists)
    try:
        wait_until(lambda: len(app.instances()) == 2)
        app.installation.run_json("environment", "hibernate", app.name)
        wait_until(lambda: app.runners() == [])
        app.installation.run_json("environment", "wake", app.name)
        wait_until(app.is_up)
        # The build is still in progress.
        assert len(app.builders()) > 0
    finally:
        (home / "go").touch()
    assert app.wait_finished(number).status == "succeeded"
    assert app.get() == (200, "later")

"""Hostile workflows: each ends as a failed deployment with a reason, and nothing else is affected."""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from deployer.processes.process_table import INIT_PID, read_namespace_pids
from tests.support.deployed_apps import SERVE, page_app, shell_app
from tests.support.hostile_apps import DAEMONS, FORK_BOMB, INTRUDER, MEMORY_BOMB, SICK, STUBBORN_AND_DEAF
from tests.support.installation import App, Installation, find_processes
from tests.support.repositories import Files, Link, Repository
from tests.support.waits import wait_until

_MEMORY_MB = 192
_MOST_GROWTH_MB = 60
_SHELL_BOMB = "bomb() { bomb | bomb & }; bomb; sleep 1000"


@pytest.fixture(scope="module")
def deploy_settings() -> Mapping[str, str]:
    return {
        "PHAROS_DEPLOY_PROCESSES": "64",
        "PHAROS_DEPLOY_MEMORY_BYTES": str(_MEMORY_MB * 2**20),
        "PHAROS_DEPLOY_LOG_BYTES": str(2**20),
        "PHAROS_DEPLOY_DRAIN_SECONDS": "1",
    }


@pytest.fixture(scope="module")
def app(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> App:
    """The application that hostile workflows attack while it serves its previous release."""
    repository = Repository(tmp_path_factory.mktemp("hostile") / "app.git")
    repository.commit(page_app("the former release"))
    created = installation.create_app("Hostile", repository)
    created.deploy_live()
    return created


@pytest.fixture(scope="module")
def neighbour(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> App:
    """Another project, whose release, home and process are attacked."""
    repository = Repository(tmp_path_factory.mktemp("neighbour") / "app.git")
    repository.commit(page_app("the neighbour's page"))
    created = installation.create_app("Neighbour", repository)
    created.set_variables("PRIVATE=belongs-to-the-neighbour\n")
    created.deploy_live()
    (created.home / "run" / "notes.txt").write_text("belongs-to-the-neighbour")
    return created


class _Guard:
    """Checks that a hostile deployment has changed nothing else."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._memory = psutil.Process(app.installation.platform.pid).memory_info().rss
        self._artefacts = app.artefacts()
        self._runners = set(app.runners())
        assert self._runners != set()

    def check(self) -> None:
        app = self._app
        wait_until(app.installation.is_ready)
        assert app.builders() == []
        assert app.get() == (200, "the former release")
        # Zombies count as processes of the user until the init process of the machine has reaped them.
        wait_until(lambda: not find_processes({app.first_uid}, with_ended=True))
        wait_until(lambda: set(app.runners()) == self._runners, 60, lambda: (app.runners(), self._runners))
        # The next sweep would remove it within a minute.
        wait_until(lambda: app.artefacts() == self._artefacts, 30, app.artefacts)
        grown = psutil.Process(app.installation.platform.pid).memory_info().rss - self._memory
        assert grown < _MOST_GROWTH_MB * 2**20, f"grown by {grown / 2**20:.0f} MB"


def _build(command: str, more: Mapping[str, str] | None = None, seconds: int = 90) -> dict[str, str]:
    return shell_app(SERVE, more, build=command, build_seconds=seconds)


_MISTAKE = "version: 1\nprocesses: {web: {comand: x}}\n"
_HOSTILE: dict[str, tuple[Files, str]] = {
    "a fork bomb": (
        _build("python3 bomb.py; exit 3", {"bomb.py": FORK_BOMB}),
        "Build step 1 of 1 ended with status 3.",
    ),
    "a fork bomb of a shell": (_build(_SHELL_BOMB, seconds=3), "Build step 1 of 1 "),
    "a memory bomb": (_build("python3 bomb.py", {"bomb.py": MEMORY_BOMB}), "ended with status"),
    "ten gigabytes of output": (_build("yes 'no end of it' | head -c 10G"), "printed more than 1 MiB"),
    "one endless line": (_build("head -c 10G /dev/zero | tr '\\0' x"), "printed more than 1 MiB"),
    "a step that never ends": (
        _build("trap '' TERM INT HUP; while :; do sleep 1; done", seconds=2),
        "took longer than 2 s.",
    ),
    "a file over the limit": (_build("truncate -s 9G big"), "Build step 1 of 1 "),
    "a full temporary folder": (_build("head -c 600M /dev/zero > /tmp/big"), "ended with status 1"),
    "daemons": (_build("python3 daemons.py; exit 3", {"daemons.py": DAEMONS}), "ended with status 3"),
    "a step that kills all processes that it can": (_build("kill -9 -1; sleep 1000"), "SIGKILL"),
    "a link out of the tree": ({**_build("true"), "link": Link("/etc/passwd")}, "'link'"),
    "a link up and out": ({**_build("true"), "a/link": Link("../../other")}, "'a/link'"),
    "a workflow that is a link": ({**_build("true"), "pharos.yaml": Link("build.sh")}, "pharos.yaml"),
    "no YAML": (
        {**_build("true"), "pharos.yaml": "version: 1\nprocesses: [\n"},
        "pharos.yaml cannot be used: line 2",
    ),
    "a mistake": ({**_build("true"), "pharos.yaml": _MISTAKE}, "processes.web.comand: unknown"),
    "no workflow": ({"app.py": ""}, "no workflow document"),
    "web never listens": (shell_app("sleep 1000", health_seconds=3), "web.1 was not healthy within 3 s"),
    "web is sick": (
        shell_app("python3 sick.py", {"sick.py": SICK}, health_seconds=3),
        "web.1 was not healthy within 3 s",
    ),
    "web ends at once": (shell_app("echo 'cannot go on'; exit 4"), "web.1 ended with status 4"),
    "web leaves daemons": (
        shell_app("python3 daemons.py; exit 5", {"daemons.py": DAEMONS}),
        "web.1 ended with status 5",
    ),
    "web forks": (
        shell_app("python3 bomb.py; exit 6", {"bomb.py": FORK_BOMB}),
        "web.1 ended with status 6",
    ),
    "web is deaf and stubborn": (
        shell_app("exec python3 stubborn.py", {"stubborn.py": STUBBORN_AND_DEAF}, health_seconds=3),
        "not healthy within 3 s",
    ),
}


_REPEATED = {
    # `a fork bomb` covers the limit of processes, `ten gigabytes of output` the limit of output.
    "a fork bomb of a shell",
    "one endless line",
    "web forks",
    # The tests of the launcher cover the limits of files.
    "a file over the limit",
    "a full temporary folder",
    # The tests of the check-out cover links; `a workflow that is a link` stays here.
    "a link out of the tree",
    "a link up and out",
    # `web leaves daemons` covers daemons.
    "daemons",
    # `test_the_last_output_of_a_web_process_is_attributed_to_it` covers a web process that ends immediately.
    "web ends at once",
    # `web is deaf and stubborn` covers a web process that never listens.
    "web never listens",
    # The tests of the workflow reader cover each mistake; `no YAML` stays here.
    "a mistake",
}
assert _HOSTILE.keys() > _REPEATED


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.full] * (case in _REPEATED)) for case in _HOSTILE],
)
def test_a_hostile_workflow_fails_without_affecting_others(app: App, case: str) -> None:
    files, expected = _HOSTILE[case]
    app.repository.commit(files, "hostile")
    guard = _Guard(app)
    done = app.deploy_and_wait("hostile")
    assert done.status == "failed", done
    assert expected in done.last, done
    guard.check()


def test_the_last_output_of_a_web_process_is_attributed_to_it(app: App) -> None:
    """These lines do not mix with the output of the live release."""
    app.repository.commit(shell_app("echo 'cannot go on'; sleep 0.5; exit 4"), "hostile")
    guard = _Guard(app)
    number = app.deploy("hostile")
    wait_until(lambda: any(text.startswith("Starting 1 web process") for text in app.texts(number)))
    for _ in range(5):
        assert app.get("/told-in-the-log-of-the-live-release")[0] == 404
    done = app.wait_finished(number)
    assert done.status == "failed", done
    begins = done.texts.index("Last output of web.1:")
    assert done.texts[begins + 1 : -1] == ["cannot go on"], done
    guard.check()


def test_a_submodule_address_cannot_run_a_command(app: App, tmp_path: Path) -> None:
    modules = '[submodule "sub"]\n\tpath = sub\n\turl = "ext::sh -c touch% {}"\n'.format(tmp_path / "ran")
    revision = app.repository.commit({"README": ""}, "elsewhere")
    files = {**_build("true"), ".gitmodules": modules}
    app.repository.commit(files, "hostile", submodules={"sub": revision})
    guard = _Guard(app)
    done = app.deploy_and_wait("hostile")
    assert done.status == "failed", done
    assert "submodule" in done.last or "https and ssh" in done.last, done
    assert not (tmp_path / "ran").exists()
    guard.check()


def _attempts(app: App, neighbour: App) -> list[tuple[str, str]]:
    data, folder = app.installation.platform.data, app.installation.folder
    wait_until(
        lambda: [one["state"] for one in neighbour.instances()] == ["running"], describe=neighbour.instances
    )
    (victim,) = neighbour.instances()
    live = folder / "artefacts" / str(victim["deployment_id"])
    notes = neighbour.home / "run" / "notes.txt"
    secrets = [data / "control.sqlite", data / "variables.key", data / "credentials.json"]
    folders = [data, folder, live, neighbour.home, notes.parent, folder / "outputs", "/root"]
    reads = [
        *folders,
        *secrets,
        notes,
        live / "site" / "index.html",
        "/etc/shadow",
        app.installation.platform.log,
    ]
    attempts: list[tuple[str, object]] = [("read", "/srv/app/attempts.json")]
    attempts += [("read", path) for path in reads]
    attempts += [("write", path) for path in (data / "new", live / "new", notes, "/etc/passwd", "/srv/new")]
    attempts += [("link", path) for path in (notes, "/etc/shadow")]
    attempts += [("connect", data / "operator.sock")]
    for pid in (app.installation.platform.pid, victim["pid"]):
        inside = [
            f"/proc/{pid}/{name}" for name in ("environ", "mem", "maps", "fd", "cwd", "root/etc/shadow")
        ]
        attempts += [("read", path) for path in [*inside, f"/proc/{pid}/root{notes}"]]
        attempts += [("kill", pid), ("write", f"/proc/{pid}/oom_score_adj")]
    return [(kind, str(target)) for kind, target in attempts]


def _check_found(output: Path, attempts: Sequence[tuple[str, str]]) -> None:
    found = json.loads(output.read_text())
    assert found["tried"] == len(attempts)
    # This shows that successful attempts are reported.
    assert set(found["done"]) == {"read /srv/app/attempts.json"}, found


def test_a_build_reaches_nothing_of_others(app: App, neighbour: App) -> None:
    attempts = _attempts(app, neighbour)
    files = {"intruder.py": INTRUDER, "attempts.json": json.dumps(attempts)}
    app.repository.commit(_build("python3 intruder.py $HOME/found.json; exit 3", files), "hostile")
    guard = _Guard(app)
    done = app.deploy_and_wait("hostile")
    assert (done.status, "ended with status 3" in done.last) == ("failed", True), done
    _check_found(app.home / "build" / "found.json", attempts)
    guard.check()
    assert neighbour.get() == (200, "the neighbour's page")


def test_a_release_reaches_nothing_of_others(app: App, neighbour: App) -> None:
    """It cannot write to its own folder while it runs either."""
    attempts = [
        *_attempts(app, neighbour),
        ("write", "/srv/app/web.sh"),
        ("write", "/srv/app/site/new.html"),
        ("write", str(app.home / "build" / "new")),
    ]
    files = {"intruder.py": INTRUDER, "attempts.json": json.dumps(attempts), "site/index.html": "intruder"}
    web = f"python3 intruder.py $HOME/found.json; chmod u+w web.sh site; {SERVE}"
    app.repository.commit({**shell_app(web), **files}, "intruder")
    app.deploy_live("intruder")
    assert app.get() == (200, "intruder")
    _check_found(app.home / "run" / "found.json", attempts)
    assert app.installation.is_ready()
    assert neighbour.get() == (200, "the neighbour's page")


def test_a_release_that_ignores_sigterm_is_killed(app: App) -> None:
    stubborn = f"trap '' TERM INT; while :; do {SERVE.strip().removeprefix('exec ')}; done"
    app.repository.commit({**shell_app(stubborn), "site/index.html": "stays"}, "stubborn")
    app.deploy_live("stubborn")
    assert app.get() == (200, "stays")
    app.deploy_live("main")
    assert app.get() == (200, "the former release")
    # Instances are recorded a little after they respond.
    wait_until(lambda: [one["state"] for one in app.instances()] == ["running"], describe=app.instances)
    (web,) = app.instances()
    init = _init_of(web["pid"])
    wait_until(lambda: _sessions(app.runners(), init) == {web["pid"]}, describe=app.runners)
    assert init is None or init in app.runners()


def _init_of(pid: int) -> int | None:
    """Return the init process of the PID namespace of this process; None if Pharos could not create one."""
    namespace = os.readlink(f"/proc/{pid}/ns/pid")
    if namespace == os.readlink("/proc/self/ns/pid"):
        return None
    (init,) = (
        each
        for each in psutil.pids()
        if _namespace_of(each) == namespace and read_namespace_pids(each)[1:] == (INIT_PID,)
    )
    return init


def _namespace_of(pid: int) -> str:
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/pid")
    return ""


def _sessions(pids: Sequence[int], init: int | None) -> set[int]:
    """Return the sessions of processes that still run, except the init process."""
    found = set()
    for pid in pids:
        if pid != init:
            with suppress(ProcessLookupError):
                found.add(os.getsid(pid))
    return found

"""Pharos as an ordinary user, as in its image, or as a root with less: what the kernel grants, and what is left."""

import asyncio
import grp
import json
import os
import pwd
import random
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from deployer.processes.marks import find_marked
from tests.deployer.processes.sandbox import make_sandbox

PYTHON = Path("/usr/bin/python3")
NOBODY = 65534
# Of this run alone, and no deployer's: a step ends whatever runs as its owner, and is found by its mark.
OWNER = random.SystemRandom().randrange(2_100_000_000, 2_140_000_000)
REPOSITORY = Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not PYTHON.exists(), reason="needs root and a Python that every user may run"
)


async def _ask(*prefix: str, uid: int = 0) -> dict[str, Any]:
    """What the script tells, which is run as the last arguments of `prefix`."""
    # Pytest's own folders are closed to others.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        os.chown(folder, uid, uid)
        script = Path(__file__).with_name("with_fewer_privileges.py")
        done = await asyncio.to_thread(
            subprocess.run,
            [*prefix, str(PYTHON), "-B", str(script), folder, str(OWNER)],
            cwd="/",
            env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert done.returncode == 0, done.stderr
        return {**json.loads(done.stdout), "path": folder}


def _name(number: int) -> str:
    return f"{pwd.getpwuid(number).pw_name}\n{grp.getgrgid(number).gr_name}"


def _check_what_always_holds(told: dict[str, Any], uid: int) -> None:
    status = dict(line.split(":", 1) for line in told["status"].splitlines())
    assert status["Uid"].split() == [str(uid)] * 4
    assert {status[name].strip() for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"].strip() == "1"
    assert told["left"] == 0
    assert told["failed"] == "ended with status 3"


def _check_what_is_left_without_namespaces(told: dict[str, Any]) -> None:
    assert told["has_namespaces"] is False
    assert told["folder"].splitlines()[:3] == [f"{told['path']}/app", f"{told['path']}/home", "content"]
    # The environment was its only mark.
    assert told["marks"] == []
    assert told["status_of_second"] == -15


@pytest.mark.parametrize("uid", [NOBODY, OWNER], ids=["named", "without a name"])
async def test_an_ordinary_user_with_namespaces(uid: int) -> None:
    told = await _ask("setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", uid=uid)
    _check_what_always_holds(told, uid)
    assert "cannot have an owner" in told["refused"]
    if not told["has_namespaces"]:
        pytest.skip("this kernel grants ordinary users no namespaces")
    lines = told["folder"].splitlines()
    assert lines[:3] == ["/srv/app", "/srv/home", "content"]
    assert "Read-only file system" in lines[3]
    # Postgres' peer authentication goes by the user's own name.
    assert told["name"] == (f"{_name(NOBODY)}\n" if uid == NOBODY else "app\napp\n")
    # Its /tmp is empty.
    assert lines[4:] == ["home"]
    assert "secret" not in told["hidden"]
    assert told["shared"] == f"pharos-{OWNER}\n"
    assert told["marks"] == [f"n{OWNER}:2"]
    assert told["status_of_second"] == -15


async def test_an_ordinary_user_without_namespaces() -> None:
    """Here because the kernel grants none to who is in a chroot. The rights of files are all that is left."""
    with tempfile.TemporaryDirectory() as root:
        script = f'mount --rbind / {root} && exec chroot --userspec={NOBODY}:{NOBODY} --groups={NOBODY} {root} "$@"'
        told = await _ask("unshare", "--mount", "sh", "-c", script, "sh", uid=NOBODY)
    _check_what_always_holds(told, NOBODY)
    _check_what_is_left_without_namespaces(told)
    assert "cannot have an owner" in told["refused"]
    # Both are the same user.
    assert "secret" in told["hidden"]


async def test_a_pharos_in_pharos(tmp_path: Path) -> None:
    """As where the tests of one are a step of another: each finds what is its own."""
    sandbox = make_sandbox(tmp_path / "place")
    # Its own copy: it sees nothing of a repository that lies in /tmp, or in somebody's home.
    app = sandbox.confinement.folder
    shutil.copytree(REPOSITORY / "deployer" / "processes", app / "deployer" / "processes")
    for name in ("deployer/__init__.py", "storage_backends/__init__.py", "storage_backends/end_task.py"):
        (app / name).parent.mkdir(exist_ok=True)
        shutil.copy(REPOSITORY / name, app / name)
    shutil.copy(Path(__file__).with_name("with_fewer_privileges.py"), app)
    for each in app.rglob("*"):
        each.chmod(0o755 if each.is_dir() else 0o644)
    sandbox.variables = {"PYTHONPATH": "."}
    owner = sandbox.confinement.owner
    assert owner is not None
    told = json.loads(await sandbox.run(f"{PYTHON} -B with_fewer_privileges.py $HOME {OWNER}", 200))
    _check_what_always_holds(told, owner.uid)
    if told["has_namespaces"]:
        assert told["folder"].splitlines()[:3] == ["/srv/app", "/srv/home", "content"]
        assert "secret" not in told["hidden"]
        assert told["marks"] == sorted([f"n{OWNER}:2", sandbox.mark])
    assert find_marked(sandbox.mark) == {}


async def test_root_in_a_container() -> None:
    """Which may change users but mount nothing."""
    told = await _ask("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
    _check_what_always_holds(told, OWNER)
    _check_what_is_left_without_namespaces(told)
    assert "needs an owner" in told["refused"]
    assert "secret" not in told["hidden"]
    assert "Permission denied" in told["hidden"]

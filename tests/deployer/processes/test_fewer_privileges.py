"""Pharos runs as an ordinary user, as in its image, or as root with fewer capabilities."""

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
# Unique to this run and outside of the range of deployers: a step ends all processes of its owner.
OWNER = random.SystemRandom().randrange(2_100_000_000, 2_140_000_000)
REPOSITORY = Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not PYTHON.exists(), reason="needs root and a Python that every user may run"
)


async def _run_script(*prefix: str, uid: int = 0) -> dict[str, Any]:
    """Run with_fewer_privileges.py through the command `prefix`; return its report."""
    # Other users cannot enter pytest's folders.
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


def _check_common(report: dict[str, Any], uid: int) -> None:
    status = dict(line.split(":", 1) for line in report["status"].splitlines())
    assert status["Uid"].split() == [str(uid)] * 4
    assert {status[name].strip() for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"].strip() == "1"
    assert report["left"] == 0
    assert report["failed"] == "ended with status 3"


def _check_without_namespaces(report: dict[str, Any]) -> None:
    assert report["has_namespaces"] is False
    assert report["folder"].splitlines()[:3] == [f"{report['path']}/app", f"{report['path']}/home", "content"]
    # Without namespaces, `env -i` removes the only mark.
    assert report["marks"] == []
    assert report["status_of_second"] == -15


@pytest.mark.parametrize("uid", [NOBODY, OWNER], ids=["named", "without a name"])
async def test_commands_of_an_ordinary_user_with_namespaces(uid: int) -> None:
    report = await _run_script("setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", uid=uid)
    _check_common(report, uid)
    assert "cannot have an owner" in report["refused"]
    if not report["has_namespaces"]:
        pytest.skip("this kernel grants ordinary users no namespaces")
    lines = report["folder"].splitlines()
    assert lines[:3] == ["/srv/app", "/srv/home", "content"]
    assert "Read-only file system" in lines[3]
    # Postgres' peer authentication uses the user's own name.
    assert report["name"] == (f"{_name(NOBODY)}\n" if uid == NOBODY else "app\napp\n")
    # /tmp is empty.
    assert lines[4:] == ["home"]
    assert "secret" not in report["hidden"]
    assert report["shared"] == f"pharos-{OWNER}\n"
    assert report["marks"] == [f"n{OWNER}:2"]
    assert report["status_of_second"] == -15


async def test_commands_of_an_ordinary_user_without_namespaces() -> None:
    """The kernel grants no namespaces in a chroot. Only file permissions protect files."""
    with tempfile.TemporaryDirectory() as root:
        script = f'mount --rbind / {root} && exec chroot --userspec={NOBODY}:{NOBODY} --groups={NOBODY} {root} "$@"'
        report = await _run_script("unshare", "--mount", "sh", "-c", script, "sh", uid=NOBODY)
    _check_common(report, NOBODY)
    _check_without_namespaces(report)
    assert "cannot have an owner" in report["refused"]
    # Pharos and the command are the same user.
    assert "secret" in report["hidden"]


async def test_a_nested_pharos_finds_only_its_own_processes(tmp_path: Path) -> None:
    """The tests of one Pharos may run as a step of another."""
    sandbox = make_sandbox(tmp_path / "place")
    # A copy, since the command cannot see a repository in /tmp or in a home.
    app = sandbox.confinement.folder
    shutil.copytree(REPOSITORY / "deployer" / "processes", app / "deployer" / "processes")
    for name in (
        "deployer/__init__.py",
        "deployer/shield.py",
        "storage_backends/__init__.py",
        "storage_backends/end_task.py",
    ):
        (app / name).parent.mkdir(exist_ok=True)
        shutil.copy(REPOSITORY / name, app / name)
    shutil.copy(Path(__file__).with_name("with_fewer_privileges.py"), app)
    for each in app.rglob("*"):
        each.chmod(0o755 if each.is_dir() else 0o644)
    sandbox.variables = {"PYTHONPATH": "."}
    owner = sandbox.confinement.owner
    assert owner is not None
    report = json.loads(await sandbox.run(f"{PYTHON} -B with_fewer_privileges.py $HOME {OWNER}", 200))
    _check_common(report, owner.uid)
    if report["has_namespaces"]:
        assert report["folder"].splitlines()[:3] == ["/srv/app", "/srv/home", "content"]
        assert "secret" not in report["hidden"]
        assert report["marks"] == sorted([f"n{OWNER}:2", sandbox.mark])
    assert find_marked(sandbox.mark) == {}


async def test_commands_of_root_without_mount_privileges() -> None:
    """In a container, root may change users but cannot mount."""
    report = await _run_script("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
    _check_common(report, OWNER)
    _check_without_namespaces(report)
    assert "needs an owner" in report["refused"]
    assert "secret" not in report["hidden"]
    assert "Permission denied" in report["hidden"]

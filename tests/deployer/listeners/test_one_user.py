"""Pharos as an ordinary user: all applications are one user, and the processes that have a socket open decide."""

import asyncio
import json
import os
import secrets
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from deployer.processes.marks import find_marked

PYTHON = Path("/usr/bin/python3")
NOBODY = 65534
REPOSITORY = Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not PYTHON.exists(), reason="needs root and a Python that every user may run"
)


async def _ask(*prefix: str) -> dict[str, Any]:
    """What the script tells, which is run as the last arguments of `prefix`."""
    mark = f"test:{secrets.token_hex(8)}:"
    # Pytest's own folders are closed to others.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        os.chown(folder, NOBODY, NOBODY)
        script = Path(__file__).with_name("as_one_user.py")
        done = await asyncio.to_thread(
            subprocess.run,
            [*prefix, str(PYTHON), "-B", str(script), folder, mark],
            cwd="/",
            env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            capture_output=True,
            text=True,
            timeout=200,
        )
    assert find_marked(mark) == {}
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def _check(told: dict[str, Any]) -> None:
    assert told["own"] == ["OWN", True]
    assert told["own worker"] == ["OWN", True]
    assert told["a neighbour's"] == ["FOREIGN", False]
    assert told["shared with a neighbour"] == ["FOREIGN", False]
    assert told["shared with one that hides its descriptors"] == ["FOREIGN", False] * 2
    assert told["taken by one that hides its descriptors"] == ["FOREIGN", False]
    assert told["own, hidden"] == ["UNREADABLE", False]


async def test_with_namespaces() -> None:
    told = await _ask("setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups")
    _check(told)
    if not told["has_namespaces"]:
        pytest.skip("this kernel grants ordinary users no namespaces")


async def test_without_namespaces() -> None:
    """Here because the kernel grants none to who is in a chroot."""
    with tempfile.TemporaryDirectory() as root:
        script = f'mount --rbind / {root} && exec chroot --userspec={NOBODY}:{NOBODY} --groups={NOBODY} {root} "$@"'
        told = await _ask("unshare", "--mount", "sh", "-c", script, "sh")
    assert told["has_namespaces"] is False
    _check(told)

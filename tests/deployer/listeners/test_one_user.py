"""Pharos runs as an ordinary user: all applications have one user, and open descriptors decide about listeners."""

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


async def _run_script(*prefix: str) -> dict[str, Any]:
    """Run as_one_user.py through the command `prefix`; return its report."""
    mark = f"test:{secrets.token_hex(8)}:"
    # Other users cannot enter pytest's folders.
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
    verdicts: dict[str, Any] = json.loads(done.stdout)
    return verdicts


def _check(verdicts: dict[str, Any]) -> None:
    assert verdicts["own"] == ["OWN", True]
    assert verdicts["own worker"] == ["OWN", True]
    assert verdicts["a neighbour's"] == ["FOREIGN", False]
    assert verdicts["shared with a neighbour"] == ["FOREIGN", False]
    assert verdicts["shared with a program that hides its descriptors"] == ["FOREIGN", False] * 2
    assert verdicts["taken by a program that hides its descriptors"] == ["FOREIGN", False]
    assert verdicts["own, hidden"] == ["UNREADABLE", False]


async def test_verdicts_with_namespaces() -> None:
    verdicts = await _run_script("setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups")
    _check(verdicts)
    if not verdicts["has_namespaces"]:
        pytest.skip("this kernel grants ordinary users no namespaces")


async def test_verdicts_without_namespaces() -> None:
    """The kernel grants no namespaces in a chroot."""
    with tempfile.TemporaryDirectory() as root:
        script = f'mount --rbind / {root} && exec chroot --userspec={NOBODY}:{NOBODY} --groups={NOBODY} {root} "$@"'
        verdicts = await _run_script("unshare", "--mount", "sh", "-c", script, "sh")
    assert verdicts["has_namespaces"] is False
    _check(verdicts)

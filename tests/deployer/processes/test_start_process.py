"""Starts with invalid arguments are refused, and a process depends on the thread that started it."""

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from deployer.processes.confinement import Confinement, Owner, build_search_path
from deployer.processes.run_step import StepFailed
from tests.deployer.processes.sandbox import Sandbox, command_line, wait_until

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who gives processes to other users")


@as_root
async def test_no_command_runs_as_root(sandbox: Sandbox) -> None:
    for owner in (None, Owner(0, 0), Owner(0, 5), Owner(5, 0), Owner(-1, 5)):
        with pytest.raises(ValueError, match="root"):
            await sandbox.with_confinement(owner=owner).run("true")


@pytest.mark.parametrize(
    ("command", "variables", "mark"),
    [
        ("a\0b", {}, "m"),
        ("true", {"A=B": "c"}, "m"),
        ("true", {"": "c"}, "m"),
        ("true", {"A": "secret\0"}, "m"),
        ("true", {}, ""),
        ("true", {}, "a b"),
        ("true", {}, "a\\b"),
        ("true", {}, "m" * 201),
    ],
)
async def test_invalid_arguments_are_refused(
    sandbox: Sandbox, command: str, variables: dict[str, str], mark: str
) -> None:
    sandbox.variables = variables
    bad = Sandbox(sandbox.path, sandbox.confinement, mark, variables)
    with pytest.raises(ValueError) as caught:
        await bad.run(command)
    assert "secret" not in str(caught.value)


async def test_too_large_variables_fail_the_start(sandbox: Sandbox) -> None:
    sandbox.variables = {"LARGE": "x" * 200_000}
    with pytest.raises(StepFailed, match="could not be started: Argument list too long"):
        await sandbox.run("true")


def test_the_search_path_excludes_the_virtual_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PATH", f"{sys.prefix}/bin:/usr/bin:.::bin:{sys.prefix}/./bin/:/bin")
    assert build_search_path().startswith("/usr/bin:/bin:/usr/local/")
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    monkeypatch.setattr(sys, "prefix", "/opt/python")
    monkeypatch.setattr(sys, "base_prefix", "/opt/python")
    monkeypatch.setenv("PATH", f"{sys.prefix}/bin:/root/.pyenv/shims:/root:/bin")
    assert build_search_path().split(":")[:2] == ["/opt/python/bin", "/bin"]
    monkeypatch.setenv("PATH", "")
    assert "/usr/bin" in build_search_path().split(":")


async def test_the_shell_dies_with_the_thread_that_started_it(sandbox: Sandbox, null_output: int) -> None:
    """For the kernel, the parent is a thread."""
    pids = []

    async def start() -> None:
        process = sandbox.start("exec sleep 60", null_output)
        await wait_until(lambda: command_line(process.pid).startswith(b"sleep\0"))
        process.detach()
        pids.append(process.pid)

    thread = threading.Thread(target=lambda: asyncio.run(start()))
    thread.start()
    await asyncio.to_thread(thread.join)
    _, status = await asyncio.to_thread(os.waitpid, pids[0], 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL


def test_folders_are_read_only_by_default(tmp_path: Path) -> None:
    assert Confinement(tmp_path, tmp_path, None).is_writable is False

"""The init of a PID namespace without /bin/sleep, and the report of the confinement probe."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deployer.processes import kernel_calls, launcher, start_process
from tests.deployer.processes.sandbox import Sandbox


@pytest.fixture
async def _namespaces() -> None:
    if not await start_process.has_namespaces():
        pytest.skip("the kernel grants no namespaces here")


def _set_inits(monkeypatch: pytest.MonkeyPatch, *inits: list[str]) -> None:
    monkeypatch.setattr(start_process, "_find_init_programs", lambda: list(inits))


@pytest.mark.usefixtures("_namespaces")
async def test_python_is_the_init_without_sleep(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    sleep, *_, python = start_process._find_init_programs()
    python[0] = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else python[0]
    _set_inits(monkeypatch, ["/nowhere/sleep", *sleep[1:]], python)
    output = await sandbox.run("tr '\\0' ' ' < /proc/1/cmdline; kill -INT 1; echo; echo ran")
    assert output.startswith(f"{os.path.basename(python[0])} -I -S") and output.endswith("ran\n")


def test_sleep_is_found_on_the_search_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_process.shutil, "which", lambda name, path: f"/run/current-system/{name}")
    programs = [each[0] for each in start_process._find_init_programs.__wrapped__()]
    assert programs[:2] == ["/bin/sleep", "/run/current-system/sleep"]


@pytest.mark.usefixtures("_namespaces")
async def test_a_start_without_any_init_fails_with_one_line(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    _set_inits(monkeypatch, ["/nowhere/sleep"], ["/nowhere/python"])
    monkeypatch.setattr(start_process, "_namespaces_granted", True)
    reader, writer = os.pipe()
    process = sandbox.start("echo ran", writer)
    os.close(writer)
    assert await process.wait() == launcher.STATUS_NOT_STARTED
    output = os.read(reader, 4096).decode()
    os.close(reader)
    assert output.startswith(
        "pharos: the command could not be started: the init of its PID namespace failed: "
    )
    assert "/nowhere/sleep: No such file" in output and output.count("\n") == 1


async def test_the_probe_reports_a_missing_init(monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox) -> None:
    _set_inits(monkeypatch, ["/nowhere/sleep"], ["/nowhere/python"])
    monkeypatch.setattr(start_process, "_namespaces_granted", False)
    missing = await start_process.probe_confinement()
    assert missing.namespaces is not None and "\n" not in missing.namespaces
    assert not await start_process.has_namespaces()
    if os.geteuid() == 0 and "init" in missing.namespaces:
        assert "/nowhere/sleep: No such file or directory, /nowhere/python: No such" in missing.namespaces
    # The command runs without namespaces.
    everywhere = sandbox.with_confinement(folder=Path("/"), home=Path("/tmp"), is_writable=False)
    assert await everywhere.run("readlink /proc/self/ns/pid") == os.readlink("/proc/self/ns/pid") + "\n"


async def test_the_probe_reports_a_missing_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_process, "build_call_filter", lambda: None)
    missing = await start_process.probe_confinement()
    assert missing.filter is not None and os.uname().machine in missing.filter


@pytest.mark.parametrize(
    ("results", "is_in_force", "flags"),
    [
        ([0], True, [4]),
        # Linux before 4.17 does not support the flag.
        ([errno.EINVAL, 0], True, [4, 0]),
        ([errno.EINVAL, errno.EINVAL], False, [4, 0]),
        ([errno.ENOSYS, errno.ENOSYS], False, [4, 0]),
    ],
)
def test_install_call_filter_retries_without_an_unknown_flag(
    results: list[int], is_in_force: bool, flags: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    left, asked = list(results), []

    def syscall(_number: Any, _operation: Any, given: Any, _program: Any) -> int:
        asked.append(given.value)
        kernel_calls.ctypes.set_errno(left[0])
        return -1 if left.pop(0) else 0

    monkeypatch.setattr(kernel_calls, "_libc", SimpleNamespace(syscall=syscall))
    assert kernel_calls.install_call_filter({"call": 317, "program": "00" * 8}) is is_in_force
    assert asked == flags

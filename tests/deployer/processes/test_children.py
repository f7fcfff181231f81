"""Processes that cannot be watched are killed and reaped, and the failure is reported."""

import asyncio
import contextlib
import errno
import os
import signal
from pathlib import Path

import pytest

from deployer.processes import marks, process_table, running_process, start_process
from deployer.processes.marks import StillRunning, end_instance, find_marked
from deployer.processes.run_step import StepFailed
from deployer.processes.running_process import RunningProcess
from deployer.processes.start_process import has_namespaces
from deployer.processes.supervised_process import SupervisedProcess
from tests.deployer.processes.sandbox import Sandbox, wait_until

_MOST_OPENED = 3


class _FewDescriptors:
    """Refuses one `pidfd_open`, counted from 1: the launcher's, the init's and the command's."""

    def __init__(self, refused: int) -> None:
        self.left = refused
        self._open = os.pidfd_open

    def __call__(self, pid: int, flags: int = 0) -> int:
        self.left -= 1
        if self.left == 0:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return self._open(pid, flags)


def _children() -> set[int]:
    children: set[int] = set()
    for thread in Path("/proc/self/task").iterdir():
        # A thread may end between the listing and the read; its children pass to another thread.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            children.update(map(int, (thread / "children").read_text().split()))
    return children


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_processes_that_cannot_be_watched_are_killed(
    sandbox: Sandbox, null_output: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusable = range(1, _MOST_OPENED + 1) if await has_namespaces() else [1]
    descriptors, children = _descriptors(), _children()
    for refused in refusable:
        monkeypatch.setattr(os, "pidfd_open", _FewDescriptors(refused))
        if refused == 1:
            with pytest.raises(OSError, match="Too many open files"):
                sandbox.start("exec sleep 600", null_output)
        else:
            process = sandbox.start("exec sleep 600", null_output)
            async with asyncio.timeout(60):
                assert await process.wait() == -9
                await process.wait_started()
                await process.end(60)
            assert process.fault == "could not be watched: Too many open files"
        monkeypatch.undo()
        await wait_until(lambda: _children() <= children and _descriptors() == descriptors)
        assert find_marked(sandbox.mark) == {}


async def test_no_process_is_left_of_a_launcher_that_ended_before_it_is_watched(
    sandbox: Sandbox, null_output: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command has left the launcher's group by then."""
    descriptors, children = _descriptors(), _children()

    def refuse(pid: int) -> None:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        raise OSError(errno.ENFILE, os.strerror(errno.ENFILE))

    if await has_namespaces():
        monkeypatch.setattr(start_process, "read_process", refuse)
        with pytest.raises(OSError, match="Too many open files in system"):
            sandbox.start("exec sleep 600", null_output)
        await wait_until(lambda: _children() <= children and _descriptors() == descriptors)


async def test_a_step_that_cannot_be_watched_fails(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    if await has_namespaces():
        monkeypatch.setattr(os, "pidfd_open", _FewDescriptors(2))
        with pytest.raises(StepFailed, match="could not be watched: Too many open files"):
            await sandbox.run("exec sleep 600")


async def test_an_instance_that_cannot_be_watched_is_restarted(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not await has_namespaces():
        return
    seen: list[tuple[str, str | None]] = []
    instance = SupervisedProcess(
        command="exec sleep 600",
        variables={},
        confinement=sandbox.confinement,
        mark=sandbox.mark,
        output=tmp_path / "output",
        on_change=lambda it: seen.append((it.state, it.last_exit)),
    )
    monkeypatch.setattr(os, "pidfd_open", _FewDescriptors(2))
    instance.start()
    await wait_until(lambda: instance.state == "running")
    expected = "could not be watched: Too many open files"
    assert seen == [("starting", None), ("waiting", expected), ("starting", expected), ("running", expected)]
    await instance.stop(0)


async def test_an_instance_is_restarted_although_its_remaining_processes_cannot_be_searched(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = SupervisedProcess(
        command="until [ -e enough ]; do sleep 0.02; done; rm enough",
        variables={},
        confinement=sandbox.confinement,
        mark=sandbox.mark,
        output=tmp_path / "output",
        on_change=lambda it: None,
    )
    instance.start()
    await wait_until(lambda: instance.state == "running")
    real = running_process.end_instance

    async def refuse(*_: object) -> int:
        monkeypatch.setattr(running_process, "end_instance", real)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(running_process, "end_instance", refuse)
    (sandbox.folder / "enough").touch()
    await wait_until(lambda: (instance.restarts, instance.state) == (1, "running"))
    await instance.stop(0)


async def test_stuck_processes_block_no_thread_of_other_applications(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are more stuck searches than threads in the shared pool (six on two cores)."""
    monkeypatch.setattr(marks, "_TIMEOUT_SECONDS", 3600)
    held = [process_table.Process(2**22 + 1, 1, 1, 1, "D", 0)]
    monkeypatch.setattr(marks, "find_related", lambda *_: list(held))
    ending = [asyncio.create_task(end_instance(f"stuck:{number}", None, None)) for number in range(20)]
    try:
        async with asyncio.timeout(60):
            await asyncio.gather(*(asyncio.to_thread(os.getpid) for _ in range(20)))
        assert not any(task.done() for task in ending)
        monkeypatch.setattr(marks, "_TIMEOUT_SECONDS", -1)
        with pytest.raises(StillRunning):
            # The next search gets a thread too.
            await end_instance("stuck:last", None, None)
    finally:
        held.clear()
        await asyncio.gather(*ending)


async def test_the_report_is_read_until_the_init_has_ended() -> None:
    """A short command may have ended before the init reports for the last time."""
    launcher, init, command = (_spawn(text) for text in ("exit 0", "exec sleep 600", "exit 0"))
    report, reported = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    process = RunningProcess(launcher, "test:none", os.geteuid(), os.pidfd_open(launcher), 0, report)
    os.write(reported, f".{init} {command}\n".encode())
    assert await process.wait() == 0
    await process.wait_started()
    os.write(reported, b".")
    os.kill(init, signal.SIGKILL)
    await process.end(0)
    with pytest.raises(BrokenPipeError):
        os.write(reported, b".")
    os.close(reported)


def _spawn(command: str) -> int:
    return os.posix_spawn("/bin/sh", ["sh", "-c", command], os.environ)

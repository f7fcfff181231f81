"""Instances are restarted when they end, and their output goes to a bounded file."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from deployer.processes import supervised_process, threads
from deployer.processes.marks import find_marked
from deployer.processes.running_process import RunningProcess, adopt_process
from deployer.processes.supervised_process import State, SupervisedProcess, compute_restart_delay
from tests.deployer.processes.sandbox import Sandbox, wait_until

Make = Callable[..., SupervisedProcess]


@pytest.fixture
async def supervise(sandbox: Sandbox, tmp_path: Path) -> AsyncIterator[Make]:
    made = []

    def make(command: str, **more: Any) -> SupervisedProcess:
        more = {"on_change": lambda instance: None, "output": tmp_path / "output", **more}
        made.append(
            SupervisedProcess(
                command=command, variables={}, confinement=sandbox.confinement, mark=sandbox.mark, **more
            )
        )
        return made[-1]

    yield make
    for each in made:
        await each.stop(0)


async def test_an_instance_runs_until_it_is_stopped(
    supervise: Make, sandbox: Sandbox, tmp_path: Path
) -> None:
    seen: list[tuple[State, bool]] = []
    instance = supervise(
        "echo out; echo err >&2; exec sleep 100", on_change=lambda it: seen.append((it.state, bool(it.pid)))
    )
    assert (instance.state, instance.pid, instance.started_at) == ("stopped", None, None)
    instance.start()
    instance.start()
    await wait_until((tmp_path / "output").exists)
    await wait_until(lambda: (tmp_path / "output").read_text() == "out\nerr\n")
    # The program may print before the launcher's report is read.
    await wait_until(lambda: instance.state == "running")
    assert (instance.restarts, instance.last_exit) == (0, None)
    assert instance.started_at is not None
    await instance.stop(60)
    assert (instance.state, instance.pid) == ("stopped", None)
    assert instance.last_exit == "was ended by signal 15 (SIGTERM)"
    assert seen == [("starting", False), ("running", True), ("stopped", False)]
    assert find_marked(sandbox.mark) == {}


async def test_pharos_owns_the_output_file(supervise: Make, sandbox: Sandbox, tmp_path: Path) -> None:
    """A program may open it to append, as to /dev/stderr, but not read or change it otherwise."""
    instance = supervise(
        "echo one; echo two >> /dev/stderr; cat /proc/self/fd/1; chmod 777 /proc/self/fd/1; echo three; "
        "exec sleep 100"
    )
    instance.start()
    # A program writes error messages in pieces.
    await wait_until(
        lambda: (tmp_path / "output").exists() and (tmp_path / "output").read_text().endswith("three\n")
    )
    text = (tmp_path / "output").read_text()
    status = (tmp_path / "output").stat()
    assert status.st_uid == os.getuid()
    assert status.st_mode & 0o777 == (0o620 if sandbox.confinement.owner else 0o600)
    if sandbox.confinement.owner:
        assert text.startswith("one\ntwo\ncat: ")
        assert "Permission denied" in text and "not permitted" in text


async def test_the_restart_delay_grows(supervise: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    changes: list[tuple[State, float]] = []
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        # The fourth sleep does not end, so that the state does not change during the assertions.
        await (asyncio.sleep(seconds) if len(pauses) < 4 else asyncio.Event().wait())

    # The real durations include the machine's starts and ends, so check the requested delays.
    monkeypatch.setattr(supervised_process, "asyncio", _AsyncioWithSleep(sleep))
    loop = asyncio.get_running_loop()
    instance = supervise(
        "exit 3", clock=lambda: 0.0, on_change=lambda it: changes.append((it.state, loop.time()))
    )
    monkeypatch.setattr(instance, "_watch_output", asyncio.Event().wait)
    instance.start()
    await wait_until(lambda: len(pauses) == 4)
    assert pauses == [0.1, 1.0, 2.0, 4.0]
    assert [state for state, _ in changes] == ["starting", "running", "waiting"] * 4
    ends = [at for state, at in changes if state == "waiting"]
    starts = [at for state, at in changes if state == "starting"]
    waited = [start - end for end, start in zip(ends, starts[1:], strict=False)]
    assert all(took >= pause for took, pause in zip(waited, pauses, strict=False))
    assert instance.restarts == 3
    assert instance.last_exit == "ended with status 3"
    await instance.stop(1)
    assert instance.restarts == 3


class _AsyncioWithSleep:
    """The asyncio module with another `sleep`."""

    def __init__(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        self.sleep = sleep

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)


async def test_remaining_processes_of_a_crash_are_ended_before_the_restart(
    supervise: Make, sandbox: Sandbox, tmp_path: Path
) -> None:
    """A remaining worker would hold the port."""
    left = []

    def look(it: SupervisedProcess) -> None:
        # Check immediately, since the restart follows a tenth of a second later.
        if it.state == "waiting":
            left.append(find_marked(sandbox.mark))

    instance = supervise("setsid sleep 100 & sleep 100 & kill -9 $$", on_change=look)
    instance.start()
    await wait_until(lambda: left)
    assert left[0] == {}
    assert instance.last_exit == "ended with exit status 137 (SIGKILL, perhaps out of memory)"


async def test_the_output_file_is_bounded(supervise: Make, sandbox: Sandbox, tmp_path: Path) -> None:
    instance = supervise(
        "yes 'a line of some length' | head -c 20M; touch written; until [ -e cut ]; do sleep 0.02; done; "
        "echo last; exec sleep 100",
        output_bytes=2**20,
    )
    instance.start()
    kept, output = tmp_path / "output.1", tmp_path / "output"
    await wait_until((sandbox.folder / "written").exists)
    await wait_until(lambda: output.stat().st_size <= 2**20)
    # Not earlier: lines written during a truncation may be lost, on a busy machine many.
    (sandbox.folder / "cut").touch()
    await wait_until(lambda: b"last\n" in output.read_bytes())
    assert kept.stat().st_size <= 2 * 2**20
    assert (tmp_path / "output").stat().st_size <= 2**20
    assert kept.read_bytes().startswith(b"a line of some length\n")
    assert kept.stat().st_mode & 0o777 == 0o600


async def test_an_adopted_process_is_supervised(supervise: Make, sandbox: Sandbox, null_output: int) -> None:
    process = sandbox.start("exec sleep 100", null_output, dies_with_deployer=False)
    await process.wait_started()
    process.detach()
    instance = supervise("exec sleep 200", adopted=adopt_process(process.pid, sandbox.mark))
    instance.start()
    await wait_until(lambda: instance.state == "running")
    assert (instance.pid, instance.restarts) == (process.pid, 0)
    os.kill(process.pid, 9)
    await wait_until(lambda: instance.restarts == 1 and instance.state == "running")
    assert instance.pid != process.pid


async def test_a_detached_process_can_be_adopted(supervise: Make, sandbox: Sandbox) -> None:
    instance = supervise("exec sleep 100")
    instance.start()
    await wait_until(lambda: instance.state == "running")
    pid = instance.pid
    assert pid is not None
    await instance.detach()
    successor = adopt_process(pid, sandbox.mark)
    await successor.end(1)


async def test_a_failed_start_is_retried(supervise: Make, tmp_path: Path) -> None:
    instance = supervise("exec sleep 100", output=tmp_path / "none" / "output")
    instance.start()
    await wait_until(lambda: instance.restarts >= 1)
    assert instance.last_exit == "could not be started: No such file or directory"
    (tmp_path / "none").mkdir()
    await wait_until(lambda: instance.state == "running")


@pytest.mark.parametrize("delay", [0, 0.001, 0.02, 0.1, 0.2])
async def test_an_instance_can_be_stopped_in_any_state(
    supervise: Make, sandbox: Sandbox, delay: float
) -> None:
    instance = supervise("sleep 0.05; exit 1")
    instance.start()
    await asyncio.sleep(delay)
    await instance.stop(1)
    assert instance.state == "stopped"
    assert find_marked(sandbox.mark) == {}
    instance.start()
    await wait_until(lambda: instance.pid is not None)


def test_an_invalid_command_is_refused_immediately(supervise: Make) -> None:
    with pytest.raises(ValueError):
        supervise("a\0b")


async def test_a_restart_can_use_another_mark_and_other_variables(
    supervise: Make, sandbox: Sandbox, tmp_path: Path
) -> None:
    """A restart may use another port."""
    given = iter([OSError(98, "no port is free"), (f"{sandbox.mark}b", {"N": "second"})])

    def renew() -> tuple[str, dict[str, str]]:
        following = next(given)
        if isinstance(following, OSError):
            raise following
        return following

    faults = []
    instance = supervise(
        "echo $PHAROS_INSTANCE $N; [ -z $N ] || exec sleep 100",
        renew=renew,
        on_change=lambda it: faults.append(it.last_exit),
    )
    instance.start()
    lines = [sandbox.mark, f"{sandbox.mark}b second"]
    await wait_until(lambda: (tmp_path / "output").exists())
    await wait_until(lambda: (tmp_path / "output").read_text().splitlines() == lines)
    assert (instance.mark, instance.restarts) == (f"{sandbox.mark}b", 2)
    assert "could not be started: no port is free" in faults


@pytest.fixture
def end_shortage(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Make thread starts fail, as with a full pids cgroup; the returned function ends the shortage."""
    monkeypatch.setattr(threads, "_threads", ThreadPoolExecutor(1))
    real = threading.Thread.start

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    return lambda: monkeypatch.setattr(threading.Thread, "start", real)


async def test_a_shortage_of_threads_does_not_end_the_supervision(
    supervise: Make, monkeypatch: pytest.MonkeyPatch, end_shortage: Callable[[], None]
) -> None:
    monkeypatch.setattr(supervised_process, "compute_restart_delay", lambda _short_runs: 0.0)
    monkeypatch.setattr(supervised_process, "_POLL_SECONDS", 0.01)
    instance = supervise("exit 1")
    instance.start()
    await wait_until(lambda: instance.restarts >= 2)
    end_shortage()
    restarts = instance.restarts
    await wait_until(lambda: instance.restarts > restarts)
    assert not any(task.done() for task in instance._tasks)


async def test_an_unexpected_error_does_not_end_the_supervision(
    supervise: Make, monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox
) -> None:
    monkeypatch.setattr(supervised_process, "compute_restart_delay", lambda _short_runs: 0.0)
    faults, really_wait = iter([ValueError("a defect")]), RunningProcess.wait_started

    async def wait_started(self: RunningProcess) -> None:
        for fault in faults:
            raise fault
        await really_wait(self)

    monkeypatch.setattr(RunningProcess, "wait_started", wait_started)
    instance = supervise("exec sleep 100")
    instance.start()
    await wait_until(lambda: instance.restarts == 1 and instance.state == "running")
    assert instance.last_exit == "could not be supervised: the deployer's own log says why"
    # Only the command and the init of its PID namespace are left, no process of the first start.
    left = {each.pid for each in find_marked(sandbox.mark)[sandbox.mark]}
    assert instance.pid in left and len(left) <= 2


async def test_a_stop_that_failed_without_threads_can_be_repeated(
    supervise: Make, sandbox: Sandbox, end_shortage: Callable[[], None]
) -> None:
    instance = supervise("exec sleep 100")
    instance.start()
    await wait_until(lambda: instance.state == "running")
    with pytest.raises(OSError, match="temporarily unavailable"):
        await instance.stop(0)
    end_shortage()
    await instance.stop(0)
    assert (instance.state, find_marked(sandbox.mark)) == ("stopped", {})


async def test_a_call_that_got_no_thread_is_not_made_later(
    end_shortage: Callable[[], None],
) -> None:
    made = []
    with pytest.raises(OSError, match="temporarily unavailable"):
        await threads.run_in_thread(lambda: made.append("refused"))
    end_shortage()
    await threads.run_in_thread(lambda: made.append("accepted"))
    assert made == ["accepted"]


def test_restart_delays_double_up_to_a_minute() -> None:
    assert [compute_restart_delay(runs) for runs in range(1, 11)] == [0.1, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert compute_restart_delay(10**9) == 60

"""No process of a program that tries to hide is left after a step, a stop or a restart."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest

from deployer.processes.marks import end_instance, end_marked, find_marked
from deployer.processes.process_table import read_processes, read_uid
from deployer.processes.run_step import StepTimedOut
from deployer.processes.start_process import has_namespaces
from deployer.processes.supervised_process import SupervisedProcess
from tests.deployer.processes.sandbox import PYTHON, Sandbox, wait_until
from tests.support.hostile_apps import HIDDEN_PROCESS

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root, whose commands have a user of their own"
)


def _find_processes_of_owner(sandbox: Sandbox) -> list[int]:
    owner = sandbox.confinement.owner
    assert owner is not None
    return [each.pid for each in read_processes() if read_uid(each.pid) == owner.uid]


def _is_hidden(sandbox: Sandbox) -> bool:
    return (sandbox.confinement.home / "hidden").exists()


@pytest.fixture(autouse=True)
async def nothing_left(sandbox: Sandbox) -> AsyncIterator[None]:
    """Also end all processes of the owner, so that a failed test leaves none."""
    if not await has_namespaces():
        pytest.skip("this kernel grants no namespaces, without which hidden processes are not found")
    yield
    left = _find_processes_of_owner(sandbox)
    await end_marked(sandbox.mark, sandbox.confinement.owner)
    assert left == []


async def test_no_hidden_process_is_left_after_a_step(sandbox: Sandbox) -> None:
    await sandbox.run(f"{HIDDEN_PROCESS}\nuntil [ -e ~/hidden ]; do sleep 0.02; done")
    assert _find_processes_of_owner(sandbox) == []


async def test_no_hidden_process_is_left_after_a_step_that_times_out(sandbox: Sandbox) -> None:
    with pytest.raises(StepTimedOut):
        await sandbox.run(
            f"{HIDDEN_PROCESS}\nuntil [ -e ~/hidden ]; do sleep 0.02; done; sleep 600", timeout_seconds=3
        )
    assert _is_hidden(sandbox)
    assert _find_processes_of_owner(sandbox) == []


async def test_no_hidden_process_is_left_after_an_instance_is_stopped(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """Only the mark identifies the processes, since other instances may run as the same user."""
    instance = _supervise(sandbox, f"{HIDDEN_PROCESS}\nexec sleep 600", tmp_path, lambda _: None)
    instance.start()
    await wait_until(lambda: _is_hidden(sandbox))
    await instance.stop(1)
    assert _find_processes_of_owner(sandbox) == []


async def test_no_hidden_process_is_left_after_an_instance_crashed(sandbox: Sandbox, tmp_path: Path) -> None:
    """A remaining process would hold the port of the next start."""
    left: list[list[int]] = []

    def look(it: SupervisedProcess) -> None:
        if it.state == "waiting":
            left.append(_find_processes_of_owner(sandbox))

    command = f"{HIDDEN_PROCESS}\nuntil [ -e ~/hidden ]; do sleep 0.02; done; exit 3"
    instance = _supervise(sandbox, command, tmp_path, look)
    instance.start()
    await wait_until(lambda: left)
    await instance.stop(0)
    assert left[0] == []


async def test_hidden_processes_of_a_killed_deployer_are_ended(sandbox: Sandbox, null_output: int) -> None:
    """A successor ends instances that it does not adopt, and spares other instances of the same user."""
    other = Sandbox(sandbox.path, sandbox.confinement, sandbox.mark + "2")
    process = sandbox.start(f"{HIDDEN_PROCESS}\nexec sleep 600", null_output, dies_with_deployer=False)
    neighbour = other.start("exec sleep 600", null_output, dies_with_deployer=False)
    await neighbour.wait_started()
    await wait_until(lambda: _is_hidden(sandbox))
    process.detach()
    children = psutil.Process().children()
    assert await _end_instance_and_reap(sandbox.mark) > 0
    for each in children:
        if each.pid != neighbour.pid and not each.is_running():
            each.wait()
    assert neighbour.is_running
    assert set(find_marked(sandbox.mark)) == {other.mark}
    await neighbour.end(0)


async def _end_instance_and_reap(mark: str) -> int:
    ending = asyncio.ensure_future(end_instance(mark, None, None))
    while not ending.done():
        # Detached processes have no other reaper.
        for each in psutil.Process().children():
            if each.status() == psutil.STATUS_ZOMBIE:
                each.wait(0)
        await asyncio.sleep(0.02)
    return ending.result()


async def test_no_child_is_left_of_a_killed_launcher(sandbox: Sandbox, null_output: int) -> None:
    """The kill hits the launcher at different stages."""
    before = {each.pid for each in psutil.Process().children()}
    for pause in (0, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.05):
        process = sandbox.start("exec sleep 600", null_output)
        await asyncio.sleep(pause)
        os.kill(process.pid, 9)
        await process.wait()
        await process.end(0)
        assert _find_processes_of_owner(sandbox) == []
    assert {each.pid for each in psutil.Process().children()} <= before


async def test_a_command_can_kill_only_its_own_processes(sandbox: Sandbox, null_output: int) -> None:
    """Other processes of the same user are out of reach: if Pharos is an ordinary user, Pharos is one of them."""
    other = Sandbox(sandbox.path, sandbox.confinement, sandbox.mark + "2")
    neighbour = other.start("exec sleep 600", null_output)
    await neighbour.wait_started()
    everything = f"{PYTHON} -c 'import os; os.kill(-1, 9)'"
    process = sandbox.start(f"kill -9 1 {neighbour.pid} {os.getpid()}; {everything}; sleep 600", null_output)
    assert await process.wait() == -signal.SIGKILL
    await process.end(0)
    assert neighbour.is_running
    await neighbour.end(0)


def _supervise(
    sandbox: Sandbox, command: str, path: Path, on_change: Callable[[SupervisedProcess], None]
) -> SupervisedProcess:
    return SupervisedProcess(
        command=command,
        variables={},
        confinement=sandbox.confinement,
        mark=sandbox.mark,
        output=path / "output",
        on_change=on_change,
    )

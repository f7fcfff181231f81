"""Running processes are watched, ended, and adopted from a killed deployer."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import uvloop

from deployer.processes.launcher import MARK_VARIABLE
from deployer.processes.marks import end_marked, find_marked
from deployer.processes.process_table import Marks, read_namespace_pids, read_process
from deployer.processes.running_process import adopt_process
from deployer.processes.start_process import has_namespaces
from tests.deployer.processes.sandbox import FORK_BOMB, Sandbox, command_line, wait_until

# A minimal deployer, which starts a process and is killed while the process runs.
DEPLOYER = """
import asyncio, os, sys
from pathlib import Path
from deployer.processes.confinement import Confinement, Owner
from deployer.processes.start_process import start_process

async def main(folder, home, uid, mark, command):
    owner = Owner(int(uid), int(uid)) if int(uid) else None
    confinement = Confinement(Path(folder), Path(home), owner, is_writable=True)
    null = os.open("/dev/null", os.O_WRONLY)
    process = start_process(command, variables={}, confinement=confinement, mark=mark, stdout=null, stderr=null,
                            dies_with_deployer=False)
    await process.wait_started()
    print("started", flush=True)
    await asyncio.sleep(60)

asyncio.run(main(*sys.argv[1:]))
"""


def start_and_kill_deployer(sandbox: Sandbox, command: str) -> None:
    owner, confinement = sandbox.confinement.owner, sandbox.confinement
    uid = "0" if owner is None else str(owner.uid)
    deployer = subprocess.Popen(
        [
            sys.executable,
            "-c",
            DEPLOYER,
            str(confinement.folder),
            str(confinement.home),
            uid,
            sandbox.mark,
            command,
        ],
        stdout=subprocess.PIPE,
    )
    with deployer:
        assert deployer.stdout is not None
        assert deployer.stdout.readline() == b"started\n"
        deployer.kill()


async def test_the_end_of_a_process_is_noticed(sandbox: Sandbox, null_output: int) -> None:
    for command, status in (("exit 0", 0), ("exit 7", 7), ("kill -9 $$", -9), ("kill -TERM $$", -15)):
        process = sandbox.start(command, null_output)
        assert process.is_running
        assert await process.wait() == status
        assert not process.is_running
        # The process is reaped, and `end` has nothing to do.
        assert not Path(f"/proc/{process.pid}").exists()
        await process.end(5)


async def test_several_waiters_and_a_cancelled_one(sandbox: Sandbox, null_output: int) -> None:
    process = sandbox.start("until [ -e enough ]; do sleep 0.02; done; exit 4", null_output)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(process.wait(), 0.05)
    (sandbox.folder / "enough").touch()
    assert await asyncio.gather(process.wait(), process.wait()) == [4, 4]
    await process.end(0)


async def test_end_sends_sigterm_first(sandbox: Sandbox, null_output: int) -> None:
    """Each process of the group gets SIGTERM once; the end of the shell does not end the grace period of the others."""
    trap = "trap 'echo asked >> told; sleep 0.5; echo done >> told; exit' TERM"
    process = sandbox.start(f"({trap}; touch ready; while :; do sleep 0.02; done) | cat", null_output)
    await wait_until((sandbox.folder / "ready").exists)
    await process.end(60)
    assert (sandbox.folder / "told").read_text() == "asked\ndone\n"
    assert await process.wait() == -signal.SIGTERM


async def test_end_sends_sigterm_to_a_daemon_in_its_own_session(sandbox: Sandbox, null_output: int) -> None:
    process = sandbox.start(
        "setsid sh -c \"trap 'echo asked >> told; exit' TERM; touch ready; while :; do sleep 0.02; done\" & sleep 600",
        null_output,
    )
    await wait_until((sandbox.folder / "ready").exists)
    await process.end(60)
    assert (sandbox.folder / "told").read_text() == "asked\n"
    assert find_marked(sandbox.mark) == {}


async def test_a_process_that_ignores_sigterm_is_killed(sandbox: Sandbox, null_output: int) -> None:
    process = sandbox.start("trap '' TERM; touch ready; while :; do sleep 0.02; done", null_output)
    await wait_until((sandbox.folder / "ready").exists)
    await asyncio.gather(process.end(0.5), process.end(0.5))
    assert await process.wait() == -signal.SIGKILL


async def test_a_cancellation_ends_the_grace_period(sandbox: Sandbox, null_output: int) -> None:
    process = sandbox.start("trap '' TERM; touch ready; while :; do sleep 0.02; done", null_output)
    await wait_until((sandbox.folder / "ready").exists)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(process.end(60), 0.3)
    assert find_marked(sandbox.mark) == {}
    assert not process.is_running


async def test_a_process_that_outlived_its_deployer_is_adopted(sandbox: Sandbox) -> None:
    begun = time.time()
    await asyncio.to_thread(start_and_kill_deployer, sandbox, "sleep 600 & setsid sleep 600 & exec sleep 600")
    await wait_until(lambda: _count_running(sandbox) == 3)
    found = find_marked(sandbox.mark)[sandbox.mark]
    owner = sandbox.confinement.owner
    assert {each.uid for each in found} == {os.getuid() if owner is None else owner.uid}
    if await has_namespaces():
        # Without namespaces, the daemon counts as a leader too.
        assert sum(each.is_leader for each in found) == 1
    leader = next(each for each in found if each.is_leader)
    process = adopt_process(leader.pid, sandbox.mark)
    assert process.is_running
    assert process.started_ticks == leader.started_ticks
    # The start time is accurate to a clock tick.
    assert begun - 1 < process.started_at.timestamp() < time.time() + 1
    waiting = asyncio.ensure_future(process.wait())
    await process.end(5)
    assert await waiting is None
    assert find_marked(sandbox.mark) == {}


async def test_only_a_process_with_the_mark_is_adopted(sandbox: Sandbox, null_output: int) -> None:
    for pid in (os.getpid(), 1):
        with pytest.raises(ProcessLookupError):
            adopt_process(pid, sandbox.mark)
    process = sandbox.start("true", null_output)
    await process.wait()
    await process.end(0)
    with pytest.raises(ProcessLookupError):
        adopt_process(process.pid, sandbox.mark)


async def test_processes_of_an_earlier_deployer_are_ended_by_their_prefix(sandbox: Sandbox) -> None:
    await asyncio.to_thread(start_and_kill_deployer, sandbox, "trap '' TERM; while :; do sleep 0.1; done")
    assert await end_marked(sandbox.mark[:-1]) >= 1
    assert find_marked(sandbox.mark) == {}
    assert await end_marked(sandbox.mark[:-1]) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who gives processes to other users")
async def test_all_processes_of_an_owner_are_ended(sandbox: Sandbox, null_output: int) -> None:
    """The owner's processes are ended although no process has the mark."""
    process = sandbox.start("sleep 600 & sleep 600", null_output)
    await wait_until(lambda: _count_running(sandbox) == 3)
    await end_marked("no such mark", sandbox.confinement.owner)
    assert find_marked(sandbox.mark) == {}
    assert await process.wait() == -signal.SIGKILL


async def test_a_fork_bomb_is_ended_by_its_mark(sandbox: Sandbox, null_output: int) -> None:
    """Only the mark identifies the processes of a release, since its owner may run others."""
    if sandbox.confinement.owner is None:
        pytest.skip("needs root, whose other processes do not count for the limit")
    process = sandbox.with_limits(processes=200).start(FORK_BOMB, null_output)
    await wait_until(lambda: len(find_marked(sandbox.mark).get(sandbox.mark, ())) > 100)
    await process.end(0.2)
    assert find_marked(sandbox.mark) == {}


async def test_a_program_that_overwrites_its_environment_is_found(sandbox: Sandbox, null_output: int) -> None:
    """The process is found by its mounts, if the machine has namespaces."""
    process = sandbox.start("exec env -i sh -c 'while :; do sleep 0.1; done'", null_output)
    await wait_until(lambda: command_line(process.pid).startswith(b"sh\0"))
    seen = read_process(process.pid)
    assert seen is not None
    if os.geteuid() == 0:
        assert Marks().read(process.pid) == {sandbox.mark}
    await process.end(0)


async def test_a_mark_in_the_environment_does_not_count_in_a_marked_namespace(
    sandbox: Sandbox, null_output: int
) -> None:
    """A program can set any environment variable, but cannot leave its mount namespace."""
    if not await has_namespaces():
        pytest.skip("this kernel grants no namespaces")
    forged = f"forged:{sandbox.mark}"
    process = sandbox.start(f"exec env {MARK_VARIABLE}={forged} /bin/sleep 600", null_output)
    await process.wait_started()
    await wait_until(lambda: Marks().read_claimed(process.pid) == {forged})
    assert Marks().read(process.pid) == {sandbox.mark}
    assert find_marked(forged) == {}
    assert all(each.is_sealed for each in find_marked(sandbox.mark)[sandbox.mark])
    with pytest.raises(ProcessLookupError):
        adopt_process(process.pid, forged)
    assert await end_marked(forged) == 0
    assert process.is_running
    await process.end(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
async def test_another_user_who_claims_the_mark_does_not_delay_the_end(
    sandbox: Sandbox, null_output: int
) -> None:
    """Without namespaces, an application could start such processes again and again."""
    process = sandbox.start("exec sleep 600", null_output)
    await process.wait_started()
    claimant = _claim(sandbox.mark, process.uid + 1)
    try:
        await wait_until(lambda: Marks().read(claimant.pid) == {sandbox.mark})
        await process.end(5)
        await end_marked(sandbox.mark, sandbox.confinement.owner)
        assert claimant.poll() is None
        assert [each.pid for each in find_marked(sandbox.mark)[sandbox.mark]] == [claimant.pid]
    finally:
        claimant.kill()
        claimant.wait()


@pytest.mark.parametrize("times", [5, pytest.param(20, marks=pytest.mark.full)])
async def test_a_process_is_found_from_its_first_instant(
    sandbox: Sandbox, null_output: int, times: int
) -> None:
    for _ in range(times):
        process = sandbox.start("exec sleep 100", null_output)
        assert Marks().read(process.pid) == {sandbox.mark}
        await process.end(0)


async def test_a_detached_process_keeps_running(sandbox: Sandbox, null_output: int) -> None:
    process = sandbox.start("exec sleep 100", null_output, dies_with_deployer=False)
    await process.wait_started()
    assert _count_pidfds(process.pid) == 1
    process.detach()
    assert _count_pidfds(process.pid) == 0
    again = adopt_process(process.pid, sandbox.mark)
    await again.end(1)
    assert await again.wait() in (-signal.SIGTERM, -signal.SIGKILL)


def _claim(mark: str, uid: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["/bin/sleep", "600"], env={MARK_VARIABLE: mark}, user=uid)


def _count_running(sandbox: Sandbox) -> int:
    """Return the number of processes with the mark, without the init of their namespace."""
    found = find_marked(sandbox.mark).get(sandbox.mark, ())
    return sum(read_namespace_pids(each.pid)[1:] != (1,) for each in found)


def _count_pidfds(pid: int) -> int:
    """Return how many of our descriptors are pidfds of this process. Threads of engines open and close others."""
    output = []
    for each in Path("/proc/self/fdinfo").iterdir():
        with contextlib.suppress(FileNotFoundError):
            output.append(each.read_text())
    return sum(f"\nPid:\t{pid}\n" in each for each in output)


def test_processes_work_under_uvloop(sandbox: Sandbox, null_output: int) -> None:
    async def run() -> tuple[str, int]:
        output = await sandbox.run("echo out; sleep 0.1; echo err >&2")
        process = sandbox.start("sleep 0.2; exit 5", null_output)
        status = await process.wait()
        # The init of the command's PID namespace may end after the command.
        await process.end(0)
        return output, status

    output = []
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        thread = threading.Thread(target=lambda: output.append(runner.run(run())))
        thread.start()
        thread.join()
    assert output == [("out\nerr\n", 5)]

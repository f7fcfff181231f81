"""Steps with real commands report exits, pass output on, and leave no processes."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from deployer.processes import run_step as run_step_module
from deployer.processes.marks import find_marked
from deployer.processes.process_table import read_processes, read_uid
from deployer.processes.run_step import StepFailed, Stream, run_step
from tests.deployer.processes.sandbox import FORK_BOMB, Sandbox, make_sandbox, wait_until

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who gives processes to other users")

# Starts a child, and a daemon in a new session. Both ignore SIGTERM.
STUBBORN = "trap '' TERM; (while :; do sleep 0.1; done) & setsid sh -c 'while :; do sleep 0.1; done' &"


def find_remaining(sandbox: Sandbox) -> list[int]:
    owner = sandbox.confinement.owner
    of_owner = [
        each.pid for each in read_processes() if owner is not None and read_uid(each.pid) == owner.uid
    ]
    return of_owner + [each.pid for found in find_marked(sandbox.mark).values() for each in found]


async def test_output_is_passed_on_by_stream(sandbox: Sandbox) -> None:
    heard: dict[Stream, bytes] = {"stdout": b"", "stderr": b""}

    async def listen(stream: Stream, chunk: bytes) -> None:
        heard[stream] += chunk

    await run_step(
        "echo out; echo err >&2; printf rest",
        variables={}, confinement=sandbox.confinement, mark=sandbox.mark, timeout_seconds=120, on_output=listen,
    )  # fmt: skip
    assert heard == {"stdout": b"out\nrest", "stderr": b"err\n"}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("exit 3", "ended with status 3"),
        ("kill -9 $$", "ended with exit status 137 (SIGKILL, perhaps out of memory)"),
        ("sh -c 'kill -9 $$'; exit $?", "ended with exit status 137 (SIGKILL, perhaps out of memory)"),
        ("kill -TERM $$", "was ended by signal 15 (SIGTERM)"),
        ("kill -40 $$", "was ended by signal 40"),
        ("no-such-command", "ended with status 127"),
        ("if", "ended with status 2"),
    ],
)
async def test_a_failed_step_describes_its_exit(sandbox: Sandbox, command: str, expected: str) -> None:
    with pytest.raises(StepFailed) as caught:
        await sandbox.run(command)
    assert str(caught.value) == expected


async def test_a_step_without_an_end_times_out(sandbox: Sandbox) -> None:
    with pytest.raises(StepFailed, match=r"^took longer than 1\.5 s and was ended$"):
        await sandbox.run(f"{STUBBORN} while :; do sleep 0.1; done", timeout_seconds=1.5)
    assert find_remaining(sandbox) == []


async def test_a_step_that_stops_itself_times_out(sandbox: Sandbox) -> None:
    with pytest.raises(StepFailed, match="took longer"):
        await sandbox.run("kill -STOP $$", timeout_seconds=1)
    assert find_remaining(sandbox) == []


async def test_daemons_end_with_the_step(sandbox: Sandbox) -> None:
    """The daemons keep the step's output open."""
    assert await sandbox.run(f"{STUBBORN} echo done") == "done\n"
    assert find_remaining(sandbox) == []


async def test_output_of_daemons_after_the_step_is_passed_on(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real limit is a second, in which a busy machine may not run the daemons at all."""
    monkeypatch.setattr(run_step_module, "_LAST_OUTPUT_SECONDS", 60)
    quiet = STUBBORN.replace("&", ">/dev/null 2>&1 &")
    assert await sandbox.run(f"{quiet} (sleep 0.3; echo late) & echo done") == "done\nlate\n"
    assert find_remaining(sandbox) == []


@as_root
async def test_hiding_daemons_are_ended(sandbox: Sandbox) -> None:
    """The daemons have no mark in their environment, a new session, and no parent among the deployer's processes."""
    await sandbox.run("setsid env -i sh -c 'sleep 100 & sleep 100' & sleep 0.2")
    assert find_remaining(sandbox) == []


@as_root
async def test_a_fork_bomb_is_ended(sandbox: Sandbox) -> None:
    bomb = sandbox.with_limits(processes=200)
    with pytest.raises(StepFailed):
        await bomb.run(FORK_BOMB, timeout_seconds=2)
    assert find_remaining(sandbox) == []


@as_root
async def test_a_fork_bomb_is_ended_with_its_shell(sandbox: Sandbox) -> None:
    await sandbox.with_limits(processes=200).run(f"({FORK_BOMB}) & sleep 0.5")
    assert find_remaining(sandbox) == []


@pytest.mark.parametrize("size", ["128M", pytest.param("1G", marks=pytest.mark.full)])
async def test_a_slow_reader_slows_the_command(sandbox: Sandbox, size: str) -> None:
    """All output is passed on in chunks, and the command waits while the receiver is busy."""
    taken = 0
    sizes = set()
    paused, goes_on = asyncio.Event(), asyncio.Event()
    # Not `ru_maxrss`: earlier tests of this process may have needed more memory than a buffered output would.
    process = psutil.Process()
    peak = before = process.memory_info().rss

    async def listen(stream: Stream, chunk: bytes) -> None:
        nonlocal taken, peak
        taken += len(chunk)
        sizes.add(len(chunk))
        peak = max(peak, process.memory_info().rss)
        if not paused.is_set():
            paused.set()
            await goes_on.wait()

    step = asyncio.ensure_future(
        run_step(
            f"head -c {size} /dev/zero",
            variables={},
            confinement=sandbox.confinement,
            mark=sandbox.mark,
            timeout_seconds=200,
            on_output=listen,
        )  # fmt: skip
    )
    await paused.wait()
    await asyncio.sleep(0.5)
    assert taken <= 65536
    goes_on.set()
    await step
    assert taken == {"128M": 2**27, "1G": 2**30}[size]
    assert max(sizes) <= 65536
    assert peak - before < 30 * 2**20


async def test_no_output_is_lost_to_a_slow_receiver(sandbox: Sandbox) -> None:
    """The shell ends long before its output is read from the pipe."""
    taken = 0

    async def listen(stream: Stream, chunk: bytes) -> None:
        nonlocal taken
        taken += len(chunk)
        await asyncio.sleep(1.5)

    await run_step(
        "head -c 40000 /dev/zero; head -c 40000 /dev/zero >&2",
        variables={}, confinement=sandbox.confinement, mark=sandbox.mark, timeout_seconds=120, on_output=listen,
    )  # fmt: skip
    assert taken == 80_000


async def test_an_error_of_the_receiver_ends_the_step(sandbox: Sandbox) -> None:
    async def listen(stream: Stream, chunk: bytes) -> None:
        raise TimeoutError("the database is away")

    with pytest.raises(TimeoutError, match="the database is away"):
        await run_step(
            f"{STUBBORN} echo one; sleep 600",
            variables={}, confinement=sandbox.confinement, mark=sandbox.mark, timeout_seconds=120, on_output=listen,
        )  # fmt: skip
    assert find_remaining(sandbox) == []


@pytest.mark.parametrize(
    "delay",
    [0, pytest.param(0.001, marks=pytest.mark.full), 0.02, pytest.param(0.05, marks=pytest.mark.full), 0.3],
)
async def test_no_process_is_left_after_a_cancellation(sandbox: Sandbox, delay: float) -> None:
    step = asyncio.ensure_future(sandbox.run(f"{STUBBORN} sleep 60"))
    await asyncio.sleep(delay)
    for _ in range(3):
        step.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await step
    assert find_remaining(sandbox) == []


async def test_a_hanging_receiver_does_not_delay_the_end(sandbox: Sandbox) -> None:
    async def listen(stream: Stream, chunk: bytes) -> None:
        await asyncio.Event().wait()

    with pytest.raises(StepFailed, match="took longer than 1 s"):
        await run_step(
            "echo one",
            variables={}, confinement=sandbox.confinement, mark=sandbox.mark, timeout_seconds=1, on_output=listen,
        )  # fmt: skip


# Runs steps in a separate process, because threads of engines in the test process open files.
RUNNER = """
import asyncio, os, sys
from pathlib import Path
from deployer.processes.confinement import Confinement, Owner
from deployer.processes.run_step import StepFailed, run_step

async def main(folder, home, uid, mark, *commands):
    owner = Owner(int(uid), int(uid)) if int(uid) else None
    confinement = Confinement(Path(folder), Path(home), owner, is_writable=True)

    async def listen(stream, chunk):
        pass

    async def run(command):
        await run_step(
            command, variables={}, confinement=confinement, mark=mark, timeout_seconds=60, on_output=listen
        )

    await run("true")
    before = sorted(os.listdir("/proc/self/fd"))
    for command in commands:
        try:
            await run(command)
        except StepFailed as failed:
            print(failed)
    print(sorted(os.listdir("/proc/self/fd")) == before)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_no_descriptor_is_left_open(sandbox: Sandbox) -> None:
    confinement, owner = sandbox.confinement, sandbox.confinement.owner
    uid = "0" if owner is None else str(owner.uid)
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", RUNNER, str(confinement.folder), str(confinement.home), uid, sandbox.mark]
        + ["true", "exit 1", "sleep 0.1 & true"],
        capture_output=True,
        text=True,
    )
    assert done.stdout == "ended with status 1\nTrue\n", done.stderr


async def test_steps_with_other_marks_continue(sandbox: Sandbox, tmp_path: Path) -> None:
    """A step does not end processes whose mark only begins with its own mark."""
    other = make_sandbox(tmp_path / "other")
    other.mark = sandbox.mark + "0"
    step = asyncio.ensure_future(other.run("until [ -e enough ]; do sleep 0.02; done; echo whole"))
    await wait_until(lambda: find_marked(other.mark))
    await sandbox.run("true")
    (other.folder / "enough").touch()
    assert await step == "whole\n"

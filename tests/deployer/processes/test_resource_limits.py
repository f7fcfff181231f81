"""The process limit of a command depends on the processes that its user already runs."""

import asyncio
import os
import subprocess

import pytest

from deployer.processes.resource_limits import compute_process_limit
from tests.deployer.processes.sandbox import PYTHON, Sandbox, wait_until

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root, whose other processes do not count for the limit"
)

FULL = f"""exec {PYTHON} -c '
import os, time
while True:
    try:
        if os.fork() == 0:
            time.sleep(600)
    except OSError:
        open(os.path.expanduser("~/full"), "w").close()
        time.sleep(600)
'"""


def _uid(sandbox: Sandbox) -> int:
    assert sandbox.confinement.owner is not None
    return sandbox.confinement.owner.uid


async def test_a_new_release_can_start_processes_next_to_a_full_one(
    sandbox: Sandbox, null_output: int
) -> None:
    small = sandbox.with_limits(processes=64)
    old = small.start(FULL, null_output)
    mark = sandbox.confinement.home / "full"
    await wait_until(mark.exists)
    mark.unlink()
    allowed = compute_process_limit(_uid(sandbox), 64)
    assert 128 <= allowed < 140
    new = small.start(FULL, null_output)
    await wait_until(mark.exists)
    assert compute_process_limit(_uid(sandbox), 64) == allowed + 64
    await asyncio.gather(old.end(0), new.end(0))


async def test_the_first_process_of_a_user_gets_the_plain_limit(sandbox: Sandbox) -> None:
    assert (await sandbox.with_limits(processes=64).run("grep processes /proc/self/limits")).split()[2:4] == [
        "64"
    ] * 2


@pytest.mark.parametrize(("running", "allowed"), [(0, 10), (1, 20), (15, 25), (45, 55), (75, 80), (90, 80)])
def test_running_processes_are_added_up_to_eight_times_the_limit(
    sandbox: Sandbox, running: int, allowed: int
) -> None:
    """Threads count as processes."""
    uid = _uid(sandbox)
    if not running:
        assert compute_process_limit(uid, 10) == allowed
        return
    code = (
        "import sys, threading\n"
        f"for _ in range({running - 1}): threading.Thread(target=sys.stdin.read, daemon=True).start()\n"
        "print('all', flush=True)\nthreading.Event().wait()"
    )
    child = subprocess.Popen(
        [PYTHON, "-c", code], user=uid, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/"
    )
    try:
        assert child.stdout is not None and child.stdout.readline() == b"all\n"
        assert compute_process_limit(uid, 10) == allowed
    finally:
        child.kill()
        child.communicate()

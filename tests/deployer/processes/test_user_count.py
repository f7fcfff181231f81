"""A user whose processes fill their limit, and what starts beside them."""

import asyncio
import os
import subprocess

import pytest

from deployer.processes.user_count import processes_allowed
from tests.deployer.processes.places import PYTHON, Place, until

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


def _uid(place: Place) -> int:
    assert place.confinement.owner is not None
    return place.confinement.owner.uid


async def test_a_release_that_fills_its_limit_is_replaced(place: Place, nowhere: int) -> None:
    """The new one may start as many, and no more."""
    small = place.limited(processes=64)
    old = small.start(FULL, nowhere)
    mark = place.confinement.home / "full"
    await until(mark.exists)
    mark.unlink()
    allowed = processes_allowed(_uid(place), 64)
    assert 128 <= allowed < 140
    new = small.start(FULL, nowhere)
    await until(mark.exists)
    assert processes_allowed(_uid(place), 64) == allowed + 64
    await asyncio.gather(old.end(0), new.end(0))


async def test_the_first_process_of_a_user_gets_its_limit(place: Place) -> None:
    assert (await place.limited(processes=64).run("grep processes /proc/self/limits")).split()[2:4] == [
        "64"
    ] * 2


@pytest.mark.parametrize(("running", "allowed"), [(0, 10), (1, 20), (15, 25), (45, 55), (75, 80), (90, 80)])
def test_what_runs_is_added_up_to_eight_times_the_limit(place: Place, running: int, allowed: int) -> None:
    """Threads count."""
    uid = _uid(place)
    if not running:
        assert processes_allowed(uid, 10) == allowed
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
        assert processes_allowed(uid, 10) == allowed
    finally:
        child.kill()
        child.communicate()

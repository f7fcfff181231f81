"""Hide processes from the deployer: double fork, namespaces of their own, `pivot_root`, an empty environment.

    python -m tests.hostile.hidden_processes

A step and an application start such a process. The program prints how many of them run while the step or the release is
current, and how many are left when the step has ended, after a rollback to a release without them, and when the
environment is stopped. Meanwhile another environment's application receives requests. Needs root and namespaces.
"""

import asyncio
import os
import signal
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from deployer.processes.process_table import read_processes, read_uid
from deployer.processes.start_process import has_namespaces
from tests.deployer.processes.sandbox import make_sandbox
from tests.hostile.neighbour import keep_sending, print_table
from tests.support.driver_under_test import DriverUnderTest, driver_under_test
from tests.support.hostile_apps import HIDDEN_PROCESS
from tests.support.waits import poll_until

_ATTACKER, _NEIGHBOUR = 1, 2
SERVES = """\
import http.server, os


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"mine")

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""
HIDES = f"import subprocess\nsubprocess.Popen(['/bin/sh', '-c', {HIDDEN_PROCESS!r}])\n{SERVES}"
"""An application that starts a hiding process, and serves requests."""
_SETTLE_SECONDS = 1.0
_LONGEST_SECONDS = 10.0


def hidden_processes(uid: int) -> list[int]:
    """Return the PIDs of this user's hiding processes, found by user, which namespaces do not change."""
    return [
        each.pid
        for each in read_processes()
        if read_uid(each.pid) == uid and _command(each.pid) == "sleep 600"
    ]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode()
    except OSError:
        return ""


async def _within(condition: Callable[[], object], seconds: float = _LONGEST_SECONDS) -> None:
    with suppress(TimeoutError):
        await poll_until(condition, seconds)


async def attack_in_step() -> tuple[int, int]:
    """Return how many processes hide when the step's command ends, and after the step."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        sandbox = make_sandbox(Path(folder) / "place")
        owner = sandbox.confinement.owner
        assert owner is not None
        running = asyncio.create_task(
            sandbox.run(f"{HIDDEN_PROCESS}\nuntil [ -e ~/go ]; do sleep 0.02; done")
        )
        await _within(lambda: hidden_processes(owner.uid))
        before = len(hidden_processes(owner.uid))
        (sandbox.confinement.home / "go").touch()
        await running
        left = hidden_processes(owner.uid)
        _end(left)
        return before, len(left)


async def bring_live(
    under_test: DriverUnderTest, environment_id: int, deployment_id: int, program: str
) -> None:
    """Deploy this program and end the previous release."""
    run = under_test.write_run(deployment_id, program, health="path: /")
    await under_test.start_and_switch(environment_id, run)
    await under_test.driver.reconcile(under_test.tenancy(environment_id), run, 1)


async def attack_by_deployment(
    under_test: DriverUnderTest, settle_seconds: float = _SETTLE_SECONDS
) -> tuple[int, int, int]:
    """Return how many processes hide while the release is live, after a rollback, and after the environment is
    stopped."""
    uid = under_test.runner_uid(_ATTACKER)
    await bring_live(under_test, _ATTACKER, 1, SERVES)
    await bring_live(under_test, _ATTACKER, 2, HIDES)
    await _within(lambda: hidden_processes(uid))
    counts = [len(hidden_processes(uid))]
    await bring_live(under_test, _ATTACKER, 3, SERVES)
    await asyncio.sleep(settle_seconds)
    left = hidden_processes(uid)
    counts.append(len(left))
    await under_test.driver.reconcile(under_test.tenancy(_ATTACKER), None, 0)
    await asyncio.sleep(settle_seconds)
    counts.append(len(hidden_processes(uid)))
    _end(left)
    return counts[0], counts[1], counts[2]


def _end(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def attack() -> None:
    """Hide in a step and in a release, and print how many processes were left."""
    if not await has_namespaces():
        print("This kernel grants no namespaces: commands are found by their marks and users alone.")
    async with driver_under_test() as under_test:
        await bring_live(under_test, _NEIGHBOUR, 10, SERVES)
        async with keep_sending(under_test.port, under_test.tenancy(_NEIGHBOUR).hosts[0], "mine") as in_step:
            step = await attack_in_step()
        async with keep_sending(
            under_test.port, under_test.tenancy(_NEIGHBOUR).hosts[0], "mine"
        ) as in_deployment:
            live, rolled_back, stopped = await attack_by_deployment(under_test)
    print_table(
        ("attack", "hidden processes of the attacker", "the neighbour's callers"),
        [
            ("in a step", f"{step[0]} in the step, {step[1]} after it", in_step),
            (
                "in a release",
                f"{live} while live, {rolled_back} after the rollback, {stopped} once stopped",
                in_deployment,
            ),
        ],
    )


if __name__ == "__main__":
    asyncio.run(attack())

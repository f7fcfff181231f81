"""An application that takes the port of a crashed one gets connections, but never a request."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from deployer.drivers.interface import DeployFailed
from tests.support.driver_under_test import DriverUnderTest, RecordedLog, driver_under_test
from tests.support.hostile_apps import ATTACKER, VICTIM
from tests.support.waits import poll_until

VICTIM_ID, ATTACKER_ID = 1, 2
CRASHES, REQUESTS = 2, 12

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs a user for each environment")


def _stolen(under_test: DriverUnderTest) -> Counter[str]:
    home = under_test.folder / "homes" / under_test.tenancy(ATTACKER_ID).public_id / "run"
    return Counter((home / "stolen").read_text().split())


async def _ask_with_cookies(under_test: DriverUnderTest) -> list[tuple[int, str]]:
    """Send requests with cookies; every second one opens a WebSocket."""
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}
    asking = (
        under_test.fetch(VICTIM_ID, "/account", Cookie="session=secret", **(upgrade if number % 2 else {}))
        for number in range(REQUESTS)
    )
    return list(await asyncio.gather(*asking))


async def test_an_application_on_the_port_of_a_crashed_one_gets_no_request() -> None:
    async with driver_under_test() as under_test:
        await under_test.start_and_switch(
            ATTACKER_ID, under_test.write_run(2, ATTACKER, variables=under_test.victim_variables(VICTIM_ID))
        )
        victim = under_test.write_run(1, VICTIM, health="path: /", variables={"START_SECONDS": "0.3"})
        await under_test.start_and_switch(VICTIM_ID, victim)
        ports = set()
        for crash in range(CRASHES):
            before = under_test.first_status(VICTIM_ID)
            assert before.pid is not None and before.port is not None
            ports.add(before.port)
            await poll_until(lambda crash=crash: _stolen(under_test)["seen"] > crash)
            os.kill(before.pid, signal.SIGKILL)
            await poll_until(lambda crash=crash: _stolen(under_test)["port"] > crash)
            # Requests of the moment after the crash wait for the next start, which has another port.
            answers = await _ask_with_cookies(under_test)
            assert answers == [(200, "mine")] * REQUESTS
            await poll_until(lambda: under_test.first_status(VICTIM_ID).state == "running")
        assert under_test.first_status(VICTIM_ID).port not in ports and len(ports) == CRASHES
        stolen = _stolen(under_test)
        assert (stolen["cookie"], stolen["request"]) == (0, 0)


async def test_a_program_on_the_port_of_a_starting_application_gets_no_request() -> None:
    """The program binds the port before the application does."""
    never_listens = "import time\ntime.sleep(1000)\n"
    async with driver_under_test() as under_test:
        run = under_test.write_run(1, never_listens, health="path: /, timeout_seconds: 2")
        starting = asyncio.create_task(under_test.driver.start(under_test.tenancy(1), run, 1, RecordedLog()))
        await poll_until(lambda: under_test.instances.get(1) and under_test.first_status(1).port)
        port = under_test.first_status(1).port
        assert port is not None
        with socket.create_server(("127.0.0.1", port)) as squatter:
            squatter.settimeout(0)
            with pytest.raises(DeployFailed, match=f"Another program listens at 127.0.0.1:{port}"):
                await starting
            # Not even a connection, since the listener is examined first.
            with pytest.raises(BlockingIOError):
                squatter.accept()
        await under_test.driver.reconcile(under_test.tenancy(1), None, 0)


async def test_deploys_and_restarts_work_without_the_right_to_trace() -> None:
    """As in a container: root cannot read descriptors of other users' processes, so the user of the socket decides."""
    program = Path(__file__).with_name("deploy_and_crash.py")
    dropped = "-sys_ptrace,-sys_admin"
    done = await asyncio.to_thread(
        subprocess.run,
        ["setpriv", f"--bounding-set={dropped}", f"--inh-caps={dropped}", sys.executable, str(program)],
        cwd=Path(__file__).parents[3],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert (done.returncode, done.stdout) == (0, "not readable\nlive\nrestarted\nswitched\nrefused\n"), (
        done.stderr
    )

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
from tests.support.driven import Driven, Heard, driven, until
from tests.support.takeover_apps import ATTACKER, VICTIM

VICTIM_ID, ATTACKER_ID = 1, 2
CRASHES, REQUESTS = 2, 12

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs a user for each environment")


def _stolen(stage: Driven) -> Counter[str]:
    home = stage.folder / "homes" / stage.tenancy(ATTACKER_ID).public_id / "run"
    return Counter((home / "stolen").read_text().split())


async def _ask_with_cookies(stage: Driven) -> list[tuple[int, str]]:
    """Send requests with cookies; every second one opens a WebSocket."""
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}
    asking = (
        stage.ask(VICTIM_ID, "/account", Cookie="session=secret", **(upgrade if number % 2 else {}))
        for number in range(REQUESTS)
    )
    return list(await asyncio.gather(*asking))


async def test_an_application_on_the_port_of_a_crashed_one_gets_no_request() -> None:
    async with driven() as stage:
        await stage.bring_live(
            ATTACKER_ID, stage.write_run(2, ATTACKER, variables=stage.name_victim(VICTIM_ID))
        )
        victim = stage.write_run(1, VICTIM, health="path: /", variables={"START_SECONDS": "0.3"})
        await stage.bring_live(VICTIM_ID, victim)
        ports = set()
        for crash in range(CRASHES):
            before = stage.web(VICTIM_ID)
            assert before.pid is not None and before.port is not None
            ports.add(before.port)
            await until(lambda crash=crash: _stolen(stage)["seen"] > crash)
            os.kill(before.pid, signal.SIGKILL)
            await until(lambda crash=crash: _stolen(stage)["port"] > crash)
            # Requests of the moment after the crash wait for the next start, which has another port.
            answers = await _ask_with_cookies(stage)
            assert answers == [(200, "mine")] * REQUESTS
            await until(lambda: stage.web(VICTIM_ID).state == "running")
        assert stage.web(VICTIM_ID).port not in ports and len(ports) == CRASHES
        stolen = _stolen(stage)
        assert (stolen["cookie"], stolen["request"]) == (0, 0)


async def test_a_program_on_the_port_of_a_starting_application_gets_no_request() -> None:
    """The program binds the port before the application does."""
    never_listens = "import time\ntime.sleep(1000)\n"
    async with driven() as stage:
        run = stage.write_run(1, never_listens, health="path: /, timeout_seconds: 2")
        starting = asyncio.create_task(stage.driver.start(stage.tenancy(1), run, 1, Heard()))
        await until(lambda: stage.instances.get(1) and stage.web(1).port)
        port = stage.web(1).port
        assert port is not None
        with socket.create_server(("127.0.0.1", port)) as squatter:
            squatter.settimeout(0)
            with pytest.raises(DeployFailed, match=f"Another program listens at 127.0.0.1:{port}"):
                await starting
            # Not even a connection, since the listener is examined first.
            with pytest.raises(BlockingIOError):
                squatter.accept()
        await stage.driver.reconcile(stage.tenancy(1), None, 0)


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

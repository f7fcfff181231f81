"""A program for test_port_takeover.py: deploys, crashes and deploys again without some rights; prints the results."""

import asyncio
import os
import signal
import socket

from deployer.listeners.open_sockets import read_open_sockets
from deployer.listeners.owners import Verdict
from tests.support.driver_under_test import driver_under_test
from tests.support.hostile_apps import VICTIM
from tests.support.waits import poll_until


async def main() -> None:
    async with driver_under_test() as under_test:
        await under_test.start_and_switch(1, under_test.write_run(1, VICTIM, health="path: /"))
        first = under_test.first_status(1)
        assert first.pid is not None and first.port is not None
        uid = os.stat(f"/proc/{first.pid}").st_uid
        print("readable" if read_open_sockets(uid, "none", first.pid).is_complete else "not readable")
        assert await under_test.fetch(1) == (200, "mine")
        print("live")
        os.kill(first.pid, signal.SIGKILL)
        assert await under_test.fetch(1) == (200, "mine")
        await poll_until(lambda: under_test.first_status(1).state == "running")
        print("restarted")
        await under_test.start_and_switch(1, under_test.write_run(2, VICTIM, health="path: /"))
        await under_test.driver.reconcile(under_test.tenancy(1), under_test.runs[2], 1)
        assert await under_test.fetch(1) == (200, "mine")
        print("switched")
        port = under_test.first_status(1).port
        assert port is not None
        pid = under_test.first_status(1).pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await poll_until(lambda: under_test.first_status(1).pid != pid)
        with socket.create_server(("127.0.0.1", port)):
            refused = not under_test.listeners.is_owned(port, under_test.listeners.verified_cookies(port))
            print(
                "refused"
                if refused and await under_test.listeners.examine(port) is Verdict.FOREIGN
                else "taken"
            )


if __name__ == "__main__":
    asyncio.run(main())

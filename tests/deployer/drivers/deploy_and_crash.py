"""A program for test_port_takeover.py: deploys, crashes and deploys again without some rights; prints the results."""

import asyncio
import os
import signal
import socket

from deployer.listeners.open_sockets import read_open_sockets
from deployer.listeners.owners import Verdict
from tests.support.driven import driven, until
from tests.support.takeover_apps import VICTIM


async def main() -> None:
    async with driven() as stage:
        await stage.bring_live(1, stage.write_run(1, VICTIM, health="path: /"))
        first = stage.web(1)
        assert first.pid is not None and first.port is not None
        uid = os.stat(f"/proc/{first.pid}").st_uid
        print("readable" if read_open_sockets(uid, "none", first.pid).is_complete else "not readable")
        assert await stage.ask(1) == (200, "mine")
        print("live")
        os.kill(first.pid, signal.SIGKILL)
        assert await stage.ask(1) == (200, "mine")
        await until(lambda: stage.web(1).state == "running")
        print("restarted")
        await stage.bring_live(1, stage.write_run(2, VICTIM, health="path: /"))
        await stage.driver.reconcile(stage.tenancy(1), stage.runs[2], 1)
        assert await stage.ask(1) == (200, "mine")
        print("switched")
        port = stage.web(1).port
        assert port is not None
        pid = stage.web(1).pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await until(lambda: stage.web(1).pid != pid)
        with socket.create_server(("127.0.0.1", port)):
            refused = not stage.listeners.is_owned(port, stage.listeners.verified_cookies(port))
            print(
                "refused" if refused and await stage.listeners.examine(port) is Verdict.FOREIGN else "taken"
            )


if __name__ == "__main__":
    asyncio.run(main())

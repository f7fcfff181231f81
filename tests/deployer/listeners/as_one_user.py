"""Run by test_one_user.py as an ordinary user: examines listeners of two applications, and prints verdicts as JSON."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from deployer.listeners.owners import ExpectedInstance, ListenerOwners
from deployer.listeners.sources import SocketDiagnostics
from deployer.processes.confinement import Confinement
from deployer.processes.running_process import RunningProcess
from deployer.processes.start_process import has_namespaces, start_process

LISTEN = """exec {python} -c '
import ctypes, os, socket, time
if {hides}:
    # PR_SET_DUMPABLE
    assert ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
listener.bind(("127.0.0.1", {port}))
listener.listen()
print(listener.getsockname()[1], flush=True)
if {forks} and os.fork():
    listener.close()
time.sleep(1000)
'"""


async def main(path: Path, mark: str) -> None:
    for name in ("app", "home"):
        (path / name).mkdir()
    confinement = Confinement(path / "app", path / "home", None)
    source = SocketDiagnostics()
    verdicts: dict[str, object] = {"has_namespaces": await has_namespaces()}
    started: list[RunningProcess] = []

    async def start(
        name: str, port: int, forks: bool = False, hides: bool = False
    ) -> tuple[Callable[[], int], int]:
        output = path / name
        with output.open("wb") as file:
            process = start_process(
                LISTEN.format(python=sys.executable, port=port, forks=forks, hides=hides),
                variables={},
                confinement=confinement,
                mark=f"{mark}{name}",
                stdout=file.fileno(),
                stderr=file.fileno(),
                dies_with_deployer=False,
            )
        started.append(process)
        while not (text := output.read_text()).endswith("\n"):
            await asyncio.sleep(0.02)
        return lambda: process.pid, int(text)

    async def examine(port: int, name: str, leader: Callable[[], int]) -> list[object]:
        owners = ListenerOwners(source, has_own_users=False)
        owners.expect(port, ExpectedInstance(os.geteuid(), f"{mark}{name}", leader))
        verdict = await owners.examine(port)
        return [verdict.name, owners.is_owned(port, owners.verified_cookies(port))]

    try:
        victim, port = await start("victim", 0)
        workers, port_of_workers = await start("workers", 0, forks=True)
        verdicts["own"] = await examine(port, "victim", victim)
        verdicts["own worker"] = await examine(port_of_workers, "workers", workers)
        verdicts["a neighbour's"] = await examine(port, "workers", workers)
        await start("attacker", port)
        verdicts["shared with a neighbour"] = await examine(port, "victim", victim)
        verdicts["shared with a program that hides its descriptors"] = []
        for shared_with, forks in (("victim", False), ("workers", True)):
            leader, own = await start(f"{shared_with}-2", 0, forks=forks)
            await start(f"hidden-beside-{shared_with}", own, hides=True)
            verdicts["shared with a program that hides its descriptors"] += await examine(
                own, f"{shared_with}-2", leader
            )
        crashed, former = await start("crashed", 0)
        await started[-1].end(0)
        _, taken = await start("hidden-squatter", former, hides=True)
        verdicts["taken by a program that hides its descriptors"] = await examine(taken, "victim", victim)
        hides, of_hidden = await start("hides", 0, hides=True)
        verdicts["own, hidden"] = await examine(of_hidden, "hides", hides)
    finally:
        for each in started:
            await each.end(0)
        source.close()
    print(json.dumps(verdicts))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))

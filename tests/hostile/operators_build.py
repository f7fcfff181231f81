"""Run by operators_keys.py as an ordinary user: starts an attacking build, and prints as JSON which attacks succeeded.

The arguments are an empty folder and the port of an ssh server that accepts the operator's key. The machine's own
Python runs this module, so it imports only the standard library and Pharos.
"""

import asyncio
import json
import os
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

from deployer.processes.confinement import Confinement
from deployer.processes.run_step import Stream, run_step
from deployer.processes.start_process import has_namespaces, start_process

_PYTHON = "exec /usr/bin/python3 -B"
_BUILD = r"""
import json, os, signal, socket, subprocess, sys, time
home, agent, port, pharos = sys.argv[1:]
def opens(path):
    try:
        return bool(open(path).read())
    except OSError:
        return False
def connects(path):
    with socket.socket(socket.AF_UNIX) as made:
        return made.connect_ex(path) == 0
def signals(pid, number):
    try:
        os.kill(pid, number)
        return True
    except OSError:
        return False
def find(text):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if text in open(f"/proc/{pid}/cmdline").read().split("\0"):
                yield int(pid)
        except OSError:
            pass
options = ("-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-p", port)
ssh = subprocess.run(["ssh", *options, "root@127.0.0.1", "x"], capture_output=True, text=True)
told = {
    "key": opens(f"{home}/.ssh/id_ed25519"),
    "netrc": opens(f"{home}/.netrc"),
    "agent": connects(agent),
    "ssh": "reached" in ssh.stdout,
    "pharos": signals(int(pharos), signal.SIGUSR1),
}
time.sleep(0.5)
told["neighbours"] = sum([signals(pid, signal.SIGKILL) for pid in find("neighbour.py")])
time.sleep(0.5)
print(json.dumps(told))
"""
_NEIGHBOUR = """
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""
_OPERATOR = "/mnt/operator"


def _make_confinement(path: Path, program: str, text: str) -> Confinement:
    for name in ("app", "home"):
        (path / name).mkdir(parents=True)
    (path / "app" / program).write_text(text)
    return Confinement(path / "app", path / "home", None)


async def _ask_neighbour(port: int, seen: Counter[str]) -> None:
    """Send requests to the neighbour until cancelled."""

    def send_request() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
                return str(answer.status)
        except OSError as error:
            reason = getattr(error, "reason", error)
            return type(reason).__name__

    while True:
        seen[await asyncio.to_thread(send_request)] += 1
        await asyncio.sleep(0.02)


async def main(path: Path, ssh_port: str) -> None:
    """Run the build once, and print which attacks succeeded."""
    agent = f"/run/user/{os.geteuid()}/agent"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(agent)
    listener.listen()
    signals: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _: signals.append(number))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    granted = await has_namespaces()
    mark = f"keys:{os.getpid()}:{time.time_ns()}:"
    null = os.open("/dev/null", os.O_WRONLY)
    neighbour = start_process(
        f"{_PYTHON} neighbour.py",
        variables={"PORT": str(port)},
        confinement=_make_confinement(path / "neighbour", "neighbour.py", _NEIGHBOUR),
        mark=f"{mark}1",
        stdout=null,
        stderr=null,
        dies_with_deployer=True,
    )
    while await asyncio.to_thread(socket.socket().connect_ex, ("127.0.0.1", port)):
        await asyncio.sleep(0.02)
    seen, heard = Counter[str](), list[bytes]()

    async def listen(_stream: Stream, chunk: bytes) -> None:
        heard.append(chunk)

    keep_sending = asyncio.create_task(_ask_neighbour(port, seen))
    await run_step(
        f"{_PYTHON} build.py {_OPERATOR} {agent} {ssh_port} {os.getpid()}",
        variables={},
        confinement=_make_confinement(path / "attacker", "build.py", _BUILD),
        mark=f"{mark}2",
        timeout_seconds=60,
        on_output=listen,
    )
    keep_sending.cancel()
    await neighbour.end(0)
    report = json.loads(b"".join(heard))
    print(json.dumps({**report, "has_namespaces": granted, "signals": len(signals), "seen": seen}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))

"""The process of the fork server, and how its forks become the programs under test.

It must stay single-threaded, because `fork` copies only the calling thread. So it never imports chDB, which starts
threads when it is loaded.

python -m tests.support.forked_program FD   serves the Unix socket FD; see fork_server.py
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import pkgutil
import random
import runpy
import secrets
import select
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

SCRIPT = str(Path(sys.executable).with_name("pharos"))
LENGTH = struct.Struct("!I")
"""The header of each request: the number of bytes of JSON that follow."""
_ROOT = Path(__file__).parents[2]
_PR_SET_PDEATHSIG = 1
# The modules that programs under test import, without those that start threads at import.
_PRELOADED_PACKAGES = ("operator_cli",)
_PRELOADED = (
    "wiring.embedded.platform",
    "demo.run_demo",
    "clickhouse_connect",
    "storage_backends.column_store.chdb_embedded",
    "alembic.command",
    "sqlalchemy.dialects.postgresql.asyncpg",
    "sqlalchemy.dialects.sqlite.aiosqlite",
    "aiosqlite",
    "asyncpg",
    "aiokafka",
    "redis.asyncio",
    "uvicorn",
    "uvloop",
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2",
    "rich._emoji_codes",
    "wiring.processes.operator_engines",
)


def _preload() -> None:
    for name in _PRELOADED:
        importlib.import_module(name)
    for package in _PRELOADED_PACKAGES:
        paths = importlib.import_module(package).__path__
        for module in pkgutil.walk_packages(paths, f"{package}."):
            importlib.import_module(module.name)
    for path in sorted((_ROOT / "tests" / "faults").glob("killable_*.py")):
        importlib.import_module(f"tests.faults.{path.stem}")
    # Otherwise the first query of each program does this.
    importlib.import_module("sqlalchemy.orm").configure_mappers()
    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, "an import of the fork server has started threads"


def _serve(connection: socket.socket) -> dict[str, Any]:
    """Fork for each request; returns only in a forked child, with its request."""
    wake_read, wake_write = socket.socketpair()
    wake_read.setblocking(False)
    wake_write.setblocking(False)
    signal.set_wakeup_fd(wake_write.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    numbers: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([connection, wake_read], [], [])
        if wake_read in ready:
            with contextlib.suppress(BlockingIOError):
                while wake_read.recv(4096):
                    pass
        _report_ended(connection, numbers)
        if connection not in ready:
            continue
        head, streams, _, _ = socket.recv_fds(connection, LENGTH.size, 3)
        request: dict[str, Any] = json.loads(_receive(connection, head))
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            for opened in (connection, wake_read, wake_write):
                opened.close()
            return {**request, "streams": streams}
        for descriptor in streams:
            os.close(descriptor)
        numbers[pid] = request["number"]
        connection.sendall(json.dumps({"number": request["number"], "pid": pid}).encode() + b"\n")


def _receive(connection: socket.socket, head: bytes) -> bytes:
    """Return the rest of a request. Ends this process if the test process has ended: its programs are killed then."""
    body = bytearray()
    length = LENGTH.unpack(head)[0] if head else 1
    while len(body) < length:
        if not (received := connection.recv(length - len(body))):
            os._exit(0)
        body += received
    return bytes(body)


def _report_ended(connection: socket.socket, numbers: dict[int, int]) -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            report = {"number": numbers.pop(pid), "status": status}
            connection.sendall(json.dumps(report).encode() + b"\n")


def _become(request: dict[str, Any]) -> None:
    """Set streams, signals, environment, folder and session of the forked process as in a new one."""
    # The server is the parent, and has one thread: this process dies with it.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if request["new_session"]:
        os.setsid()
    for number, descriptor in enumerate(request["streams"]):
        os.dup2(descriptor, number)
    for descriptor in set(request["streams"]) - {0, 1, 2}:
        os.close(descriptor)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    _redraw_random_values()
    os.chdir(request["folder"])
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, "rb", closefd=False)), encoding="utf-8")
    sys.stdout = _writer(1, unbuffered)
    sys.stderr = _writer(2, unbuffered, errors="backslashreplace")
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr


def _redraw_random_values() -> None:
    """Repeat the random choices that modules make at import, so that each process has its own."""
    from pipeline_contracts import identifiers

    random.seed()
    identifiers._REQUEST_PREFIX = secrets.token_hex(8)


def _writer(descriptor: int, unbuffered: bool, errors: str = "strict") -> io.TextIOWrapper:
    raw = io.FileIO(descriptor, "wb", closefd=False)
    # Like the interpreter: an unbuffered stream does not repeat a failed write when the program ends.
    file = raw if unbuffered else io.BufferedWriter(raw)
    lines = descriptor == 2 or os.isatty(descriptor)
    return io.TextIOWrapper(
        file, encoding="utf-8", errors=errors, line_buffering=lines, write_through=unbuffered
    )


def _run_program(arguments: Sequence[str]) -> None:
    if arguments[0] == SCRIPT:
        # The name that a shell passes. Messages contain this name.
        sys.argv = ["pharos", *arguments[1:]]
        from operator_cli.main import main

        main()
        return
    _, _, module, *rest = arguments
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _end(program: Callable[[Sequence[str]], None], arguments: Sequence[str]) -> None:
    """Run the program and exit as the interpreter does, but without tearing down the imported modules: that would copy
    the memory that all forks share."""
    status: Any = 0
    try:
        program(arguments)
    except SystemExit as error:
        status = error.code
    except BaseException:
        traceback.print_exc()
        status = 1
    if status is not None and not isinstance(status, int):
        print(status, file=sys.stderr)
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        if not sys.stdout.closed:
            sys.stdout.flush()
    except OSError:
        # The interpreter's own status for output that it could not flush.
        status = 120
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit((status or 0) & 0xFF)


if __name__ == "__main__":
    _preload()
    gc.collect()
    gc.freeze()
    _request = _serve(socket.socket(fileno=int(sys.argv[1])))
    _become(_request)
    _end(_run_program, _request["arguments"])

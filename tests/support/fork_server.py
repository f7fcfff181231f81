"""Starts Python programs in milliseconds: a server imports Pharos once, and each program is a fork of that server.

A forked program is a process like any other: it has a PID of its own, can be killed, and reads its own arguments,
environment and working directory. Only the interpreter's start and the imports (2 to 3 s of CPU each time) are shared.

The server must stay single-threaded, because `fork` copies only the calling thread. So it never imports chDB, which
starts threads when it is loaded.

python -m tests.support.fork_server FD   serves the Unix socket FD
"""

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import io
import json
import os
import random
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_SCRIPT = str(Path(sys.executable).with_name("pharos"))
_LENGTH = struct.Struct("!I")
_PR_SET_PDEATHSIG = 1
# What programs under test import. Modules that start threads when they are imported must not be here.
_PRELOADED_PACKAGES = ("operator_cli",)
_PRELOADED = (
    "embedded_app.platform",
    "embedded_app.demo",
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
    "service_processes.operator_engines",
)
# Read by the interpreter when it starts: a fork would miss them.
_OF_THE_INTERPRETER = ("PYTHON", "LC_", "LANG")
_HARMLESS = frozenset({"PYTHONUNBUFFERED", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE"})


class ForkedPopen(subprocess.Popen[Any]):
    """`subprocess.Popen` for a program that the fork server of this process starts; see `popen`."""

    def _execute_child(  # type: ignore[override]
        self,
        args: Any,
        executable: Any,
        preexec_fn: Any,
        close_fds: bool,
        pass_fds: Any,
        cwd: Any,
        env: Any,
        startupinfo: Any,
        creationflags: int,
        shell: bool,
        p2cread: int,
        p2cwrite: int,
        c2pread: int,
        c2pwrite: int,
        errread: int,
        errwrite: int,
        *rest: Any,
    ) -> None:
        request = {
            "arguments": list(map(os.fspath, args)),
            "environment": dict(os.environ if env is None else env),
            "folder": os.fspath(cwd or os.getcwd()),
            "new_session": bool(rest[5]),
        }
        streams = [
            given if given != -1 else own for given, own in ((p2cread, 0), (c2pwrite, 1), (errwrite, 2))
        ]
        self.pid = _server().start_program(request, streams)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        status = _server().status(self.pid, block=not wait_flags & os.WNOHANG)
        return (0, 0) if status is None else (self.pid, status)

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        # A thread that waits holds the lock until the program ends.
        if self.returncode is None and self._waitpid_lock.acquire(False):  # type: ignore[attr-defined]
            try:
                if self.returncode is None:
                    pid, status = self._try_wait(os.WNOHANG)
                    if pid == self.pid:
                        self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


def popen(arguments: Sequence[Any], **options: Any) -> "subprocess.Popen[Any]":
    """Start `pharos …` or `python -m module …`, forked where that makes no difference; options of `Popen`."""
    return (
        ForkedPopen(arguments, **options)
        if _can_fork(arguments, options)
        else subprocess.Popen(arguments, **options)
    )


def run(
    arguments: Sequence[Any], *, input: Any = None, timeout: float | None = None, **options: Any
) -> "subprocess.CompletedProcess[Any]":
    """`subprocess.run` by way of `popen`."""
    if options.pop("capture_output", False):
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        options["stdin"] = subprocess.PIPE
    check = options.pop("check", False)
    with popen(arguments, **options) as process:
        try:
            out, err = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            process.wait()
            raise
    done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def _can_fork(arguments: Sequence[Any], options: dict[str, Any]) -> bool:
    if os.environ.get("PHAROS_TEST_NO_FORK") or not sys.platform.startswith("linux"):
        return False
    words = list(map(str, arguments))
    is_ours = words[0] == _SCRIPT or (words[0] == sys.executable and words[1:2] == ["-m"])
    environment = options.get("env")
    if environment is None:
        environment = os.environ
    differs = {
        name
        for name in environment
        if name.startswith(_OF_THE_INTERPRETER)
        and name not in _HARMLESS
        and environment[name] != os.environ.get(name)
    }
    plain = not (
        options.keys() & {"user", "group", "extra_groups", "preexec_fn", "pass_fds", "shell", "umask"}
    )
    return is_ours and not differs and plain


class _Server:
    """The server's process, and the exit statuses that it has reported."""

    def __init__(self) -> None:
        mine, its = socket.socketpair()
        self._socket = mine
        self._sending = threading.Lock()
        self._changed = threading.Condition()
        self._started: dict[int, int] = {}
        self._statuses: dict[int, int] = {}
        self._request = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.fork_server", str(its.fileno())],
            pass_fds=[its.fileno()],
            stdin=subprocess.DEVNULL,
            cwd=_ROOT,
            start_new_session=True,
        )
        its.close()
        threading.Thread(target=self._read, daemon=True, name="fork server").start()
        atexit.register(self._close)

    def start_program(self, request: dict[str, Any], streams: Sequence[int]) -> int:
        with self._sending:
            self._request += 1
            number = self._request
            body = json.dumps({**request, "number": number}).encode()
            socket.send_fds(self._socket, [_LENGTH.pack(len(body))], list(streams))
            self._socket.sendall(body)
        with self._changed:
            self._changed.wait_for(lambda: number in self._started or self._process.poll() is not None)
            if number not in self._started:
                raise OSError("the fork server has ended")
            return self._started.pop(number)

    def status(self, pid: int, *, block: bool) -> int | None:
        """As `os.waitpid` gives it, None while the program runs."""
        with self._changed:
            if block:
                self._changed.wait_for(lambda: pid in self._statuses)
            return self._statuses.get(pid)

    def _read(self) -> None:
        with self._socket.makefile("rb") as lines:
            for line in lines:
                told = json.loads(line)
                with self._changed:
                    if "status" in told:
                        self._statuses[told["pid"]] = told["status"]
                    else:
                        # The number may have been another program's before.
                        self._statuses.pop(told["pid"], None)
                        self._started[told["number"]] = told["pid"]
                    self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _close(self) -> None:
        self._socket.close()
        self._process.kill()
        self._process.wait()


@functools.cache
def _server() -> _Server:
    return _Server()


# The server itself.


def _preload() -> None:
    for name in _PRELOADED:
        importlib.import_module(name)
    for package in _PRELOADED_PACKAGES:
        folder = Path(importlib.import_module(package).__file__ or "").parent
        for path in sorted(folder.glob("*.py")):
            importlib.import_module(f"{package}.{path.stem}")
    for path in sorted((_ROOT / "tests" / "faults").glob("killable_*.py")):
        importlib.import_module(f"tests.faults.{path.stem}")
    # Otherwise the first query of each program does it.
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
    while True:
        ready, _, _ = select.select([connection, wake_read], [], [])
        if wake_read in ready:
            with contextlib.suppress(BlockingIOError):
                while wake_read.recv(4096):
                    pass
        _report_ended(connection)
        if connection not in ready:
            continue
        head, streams, _, _ = socket.recv_fds(connection, _LENGTH.size, 3)
        if not head:
            # Who started this server has ended: its programs are killed with it.
            os._exit(0)
        (length,) = _LENGTH.unpack(head)
        body = b""
        while len(body) < length:
            body += connection.recv(length - len(body))
        request: dict[str, Any] = json.loads(body)
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            for opened in (connection, wake_read, wake_write):
                opened.close()
            return {**request, "streams": streams}
        for descriptor in streams:
            os.close(descriptor)
        connection.sendall(json.dumps({"number": request["number"], "pid": pid}).encode() + b"\n")


def _report_ended(connection: socket.socket) -> None:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            connection.sendall(json.dumps({"pid": ended[0], "status": ended[1]}).encode() + b"\n")


def _become(request: dict[str, Any]) -> None:
    """Make the forked process what a new one would be: streams, signals, environment, folder, session."""
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
    random.seed()
    os.chdir(request["folder"])
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, "rb", closefd=False)), encoding="utf-8")
    sys.stdout = _writer(1, unbuffered)
    sys.stderr = _writer(2, unbuffered, errors="backslashreplace")
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr


def _writer(descriptor: int, unbuffered: bool, errors: str = "strict") -> io.TextIOWrapper:
    raw = io.FileIO(descriptor, "wb", closefd=False)
    # As the interpreter does: what an unbuffered stream could not write is not written again when the program ends.
    file = raw if unbuffered else io.BufferedWriter(raw)
    lines = descriptor == 2 or os.isatty(descriptor)
    return io.TextIOWrapper(
        file, encoding="utf-8", errors=errors, line_buffering=lines, write_through=unbuffered
    )


def _run_program(arguments: Sequence[str]) -> None:
    if arguments[0] == _SCRIPT:
        sys.argv = list(arguments)
        from operator_cli.main import main

        main()
        return
    _, _, module, *rest = arguments
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _end(program: Callable[[Sequence[str]], None], arguments: Sequence[str]) -> None:
    """Run the program and exit as the interpreter does, except that it does not tear down every imported module: that
    would copy the memory which all forks share."""
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
    # Its own modules are those of the program that it becomes.
    _preload()
    gc.collect()
    gc.freeze()
    _request = _serve(socket.socket(fileno=int(sys.argv[1])))
    _become(_request)
    _end(_run_program, _request["arguments"])

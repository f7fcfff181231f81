"""Starts Python programs in milliseconds: a server imports Pharos once, and each program is a fork of that server.

A forked program is a process like any other: it has its own PID, can be killed, and reads its own arguments,
environment and working directory. Only the interpreter's start and the imports (2 to 3 s of CPU each time) are shared.

`forked_program.py` is the server. With PHAROS_TEST_NO_FORK=1 each program starts in a new interpreter.
"""

import atexit
import contextlib
import inspect
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.forked_program import LENGTH, SCRIPT

_ROOT = Path(__file__).parents[2]
# The interpreter reads these only when it starts, so they have no effect on a fork.
_INTERPRETER_VARIABLES = ("PYTHON", "LC_", "LANG")
_SAFE_VARIABLES = frozenset({"PYTHONUNBUFFERED", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE"})
# Options of `Popen` that a fork supports. With any other option the program starts in a new interpreter.
_SAFE_OPTIONS = frozenset(
    {
        *("stdin", "stdout", "stderr", "env", "cwd", "start_new_session", "close_fds"),
        *("text", "encoding", "errors", "bufsize", "universal_newlines"),
    }
)
_EXECUTE_CHILD = inspect.signature(subprocess.Popen._execute_child)  # type: ignore[attr-defined]


class ForkedPopen(subprocess.Popen[Any]):
    """`subprocess.Popen` for a program that the fork server of this process starts; see `popen`."""

    def _execute_child(self, *given: Any) -> None:
        options = _EXECUTE_CHILD.bind(self, *given).arguments
        request = {
            "arguments": list(map(os.fspath, options["args"])),
            "environment": dict(os.environ if options["env"] is None else options["env"]),
            "folder": os.fspath(options["cwd"] or os.getcwd()),
            "new_session": options["start_new_session"],
        }
        streams = [
            own if options[name] == -1 else options[name]
            for own, name in enumerate(("p2cread", "c2pwrite", "errwrite"))
        ]
        self._number, self.pid = _server().start_program(request, streams)
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(options[name] for name in pipes))  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        status = _server().status(self._number, block=not wait_flags & os.WNOHANG)
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
    """Start a program like `subprocess.Popen`: fork it if it is `pharos …` or `python -m …` and neither an option nor
    its environment needs a new interpreter."""
    return (
        ForkedPopen(arguments, **options)
        if _can_fork(arguments, options)
        else subprocess.Popen(arguments, **options)
    )


def run(
    arguments: Sequence[Any], *, input: Any = None, timeout: float | None = None, **options: Any
) -> "subprocess.CompletedProcess[Any]":
    """Run a program like `subprocess.run`, but start it with `popen`."""
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
    is_ours = words[0] == SCRIPT or (words[0] == sys.executable and words[1:2] == ["-m"])
    environment = options.get("env")
    if environment is None:
        environment = os.environ
    differs = {
        name
        for name in environment
        if name.startswith(_INTERPRETER_VARIABLES)
        and name not in _SAFE_VARIABLES
        and environment[name] != os.environ.get(name)
    }
    return is_ours and not differs and options.keys() <= _SAFE_OPTIONS


class _Server:
    """The server's process, and its reports on programs by the number of their request: process IDs are reused."""

    def __init__(self) -> None:
        own_end, its_end = socket.socketpair()
        self._socket = own_end
        self._sending = threading.Lock()
        self._changed = threading.Condition()
        self._started: dict[int, int] = {}
        self._statuses: dict[int, int] = {}
        self._last_number = 0
        self._has_ended = False
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.forked_program", str(its_end.fileno())],
            pass_fds=[its_end.fileno()],
            stdin=subprocess.DEVNULL,
            cwd=_ROOT,
            start_new_session=True,
        )
        its_end.close()
        threading.Thread(target=self._read, daemon=True, name="fork server").start()
        atexit.register(self._close)

    def start_program(self, request: dict[str, Any], streams: Sequence[int]) -> tuple[int, int]:
        """Return the number of the program and its process ID. Raises `OSError` if the server has ended."""
        with self._sending:
            self._last_number += 1
            number = self._last_number
            body = json.dumps({**request, "number": number}).encode()
            socket.send_fds(self._socket, [LENGTH.pack(len(body))], list(streams))
            self._socket.sendall(body)
        with self._changed:
            self._changed.wait_for(lambda: number in self._started or self._has_ended)
            if number not in self._started:
                raise OSError(
                    "The fork server has ended; standard error of the tests has its traceback. "
                    "PHAROS_TEST_NO_FORK=1 runs the tests without it."
                )
            return number, self._started.pop(number)

    def status(self, number: int, *, block: bool) -> int | None:
        """Return the wait status of a program, None while it runs."""
        with self._changed:
            if block:
                self._changed.wait_for(lambda: number in self._statuses or self._has_ended)
            # The server's programs are killed when it ends.
            return self._statuses.get(number, signal.SIGKILL if self._has_ended else None)

    def _read(self) -> None:
        # A server that was killed before it read a request resets the connection.
        with contextlib.suppress(OSError), self._socket.makefile("rb") as lines:
            for line in lines:
                report = json.loads(line)
                with self._changed:
                    if "status" in report:
                        self._statuses[report["number"]] = report["status"]
                    else:
                        self._started[report["number"]] = report["pid"]
                    self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def _close(self) -> None:
        self._socket.close()
        self._process.kill()
        self._process.wait()


_servers: list[_Server] = []
_starting = threading.Lock()


def _server() -> _Server:
    with _starting:
        if not _servers:
            _servers.append(_Server())
        return _servers[0]

#!/usr/bin/env python3
"""Run a scheduled job and report it to its heartbeat in Pharos: one file, Python 3.8 or newer, nothing to install.

    python3 pharos-run.py --ping-url https://pharos.example/ping/KEY -- /usr/local/bin/backup --all

It reports the start, and the end with the exit status and the last 10 KiB of output. Reports never affect the job: it
starts immediately, its output is forwarded as it arrives, this program exits with its status, and a failed report is
only a line on standard error.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import http.client
import os
import queue
import select
import selectors
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
import warnings
from types import FrameType
from typing import Any
from urllib.parse import urlsplit, urlunsplit

URL_VARIABLE = "PHAROS_PING_URL"
OUTPUT_BYTES = 10 * 1024

_REQUEST_SECONDS = 3.0
# Counted from the end of the command. Before that, the start is retried while the command runs.
_GIVE_UP_SECONDS = 10.0
# In addition, because the lookup of a host name ignores the time limit of a request.
_LOOKUP_SECONDS = 1.0
_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 5.0
# A process that the command has left behind may keep its output open.
_REST_SECONDS = 0.5
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGINT") if hasattr(signal, name))
# Exit statuses of a shell.
_NOT_FOUND = 127
_NOT_EXECUTABLE = 126
_BY_SIGNAL = 128


def main(arguments: list[str] | None = None) -> int:
    """Run the command of these arguments (those of the process if left out), and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="pharos-run",
        usage="pharos-run [--ping-url URL] [--no-output] -- command ...",
        description="Run a command and report its start, its exit status and the end of its output to the ping URL of "
        "a heartbeat. The exit status is the command's; a report that fails is a line on standard error.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--ping-url",
        metavar="URL",
        help="https://host/ping/KEY, or https://host/ping/KEY/NAME?create=1 with the key of an environment; better in "
        + URL_VARIABLE
        + ", because others see arguments",
    )
    parser.add_argument(
        "--no-output", action="store_true", help="send no output, and leave its streams alone"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the command and its arguments, after --")
    options = parser.parse_args(arguments)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error("add the command to run after --: pharos-run -- /usr/local/bin/backup")
    reports = _Reports(options.ping_url or os.environ.get(URL_VARIABLE) or "")
    # Before the output is opened: a report that cannot be sent must leave the streams of the job alone.
    output = None if options.no_output or not reports.can_send else _Output.open()
    reports.send("/start")
    status = _run_command(command, output)
    reports.send(f"/{status}", b"" if output is None else output.take_end())
    reports.finish()
    if output is not None:
        output.finish()
    return status


def _run_command(command: list[str], output: _Output | None) -> int:
    """Run the command and forward signals to it. Return its exit status as a shell does."""
    environment = {name: value for name, value in os.environ.items() if name != URL_VARIABLE}
    child: subprocess.Popen[bytes] | None = None
    early_signals: list[int] = []
    # Ctrl-C in a terminal reaches the command by itself.
    at_terminal = sys.stdin is not None and sys.stdin.isatty()

    def forward(number: int, _frame: FrameType | None) -> None:
        if at_terminal and number == signal.SIGINT:
            return
        if child is None:
            early_signals.append(number)
        else:
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(number)

    # The command inherits ignored signals (nohup, a background job).
    forwarded = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    # Installed before the command starts, so that a signal never ends this process alone.
    previous = {number: signal.signal(number, forward) for number in forwarded}
    streams: dict[str, int] = {} if output is None else output.streams
    try:
        child = subprocess.Popen(command, env=environment, **streams)  # type: ignore[call-overload]
        if output is not None:
            # The copier sees the end only when no other process has the writing ends.
            output.close_streams()
        for number in early_signals:
            child.send_signal(number)
        status = child.wait()
    except FileNotFoundError:
        _warn(f"{command[0]}: not found")
        return _NOT_FOUND
    except OSError as error:
        _warn(f"{command[0]}: {error.strerror}")
        return _NOT_EXECUTABLE
    finally:
        if output is not None:
            output.close_streams()
        for number, handler in previous.items():
            signal.signal(number, handler)
    return status if status >= 0 else _BY_SIGNAL - status


class _Output:
    """Copies the output of the command to that of this process, in a thread, and keeps the end of it."""

    def __init__(self, pairs: list[tuple[int, int]], streams: dict[str, int]) -> None:
        self.streams = streams
        """The writing ends for the command, as arguments of `subprocess.Popen`."""
        # The reading ends, each with the stream to which it is copied.
        self._targets = dict(pairs)
        self._end = bytearray()
        self._is_cut = False
        self._failed: list[int] = []
        self._selector = selectors.DefaultSelector()
        for source in self._targets:
            self._selector.register(source, selectors.EVENT_READ)
        self._wake, self._waker = os.pipe()
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._is_stopped = False
        self._thread = threading.Thread(target=self._copy, name="output", daemon=True)

    @classmethod
    def open(cls) -> _Output | None:
        """Begin to copy both streams, and return the copier; None if they cannot be copied."""
        if os.name != "posix":
            return None
        try:
            files = [os.fstat(1), os.fstat(2)]
            source, target = os.pipe()
            pairs, streams = [(source, 1)], {"stdout": target, "stderr": target}
            if (files[0].st_dev, files[0].st_ino) != (files[1].st_dev, files[1].st_ino):
                # One pipe for one file, as under cron: it keeps the order of both.
                source, streams["stderr"] = os.pipe()
                pairs.append((source, 2))
            output = cls(pairs, streams)
            output._thread.start()
            return output
        except (OSError, RuntimeError):
            # A stream was closed at the start, or the system has no room for more files or threads.
            return None

    def close_streams(self) -> None:
        """Close the writing ends in this process: the command has its own."""
        for stream in set(self.streams.values()):
            os.close(stream)
        self.streams = {}

    def take_end(self) -> bytes:
        """Return the end of the output, at most 10 KiB, after the command has ended."""
        self._thread.join(_REST_SECONDS)
        end = bytes(self._end)
        if self._is_cut:
            # Begin with a whole character of UTF-8.
            end = end.lstrip(bytes(range(0x80, 0xC0)))
        return end

    def finish(self) -> None:
        """Copy what has arrived. If a process that the command has left behind may still write, leave behind a process
        that copies its output: without one, its next write would fail."""
        self._is_stopped = True
        os.write(self._waker, b"x")
        self._thread.join()
        if not self._targets:
            return
        with contextlib.suppress(OSError), warnings.catch_warnings():
            # Another thread may still look up a host name. The new process uses no lock that this thread could hold.
            warnings.simplefilter("ignore")
            if os.fork() == 0:
                try:
                    self._is_stopped = False
                    self._selector.unregister(self._wake)
                    self._copy()
                finally:
                    os._exit(0)

    def _copy(self) -> None:
        while self._targets and not self._is_stopped:
            for key, _ in self._selector.select():
                if key.fd != self._wake:
                    self._copy_some(key.fd)

    def _copy_some(self, source: int) -> None:
        data = os.read(source, 65536)
        if not data:
            self._close(source)
            return
        self._end += data
        if len(self._end) > OUTPUT_BYTES:
            del self._end[:-OUTPUT_BYTES]
            self._is_cut = True
        target, rest = self._targets[source], memoryview(data)
        while rest and target not in self._failed:
            try:
                rest = rest[os.write(target, rest) :]
            except BlockingIOError:
                select.select([], [target], [])
            except OSError as error:
                if error.errno == errno.EPIPE:
                    # The command gets SIGPIPE at its next write, as without this program.
                    self._close(source)
                    return
                # The disk is full: the command continues, and its end is still reported.
                self._failed.append(target)

    def _close(self, source: int) -> None:
        self._selector.unregister(source)
        os.close(source)
        del self._targets[source]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, because the key is for this address only, and a redirected POST becomes a GET without
    output."""

    def redirect_request(self, *_: Any) -> None:
        return None


class _Reports:
    """Sends reports one after the other, in a thread while the command runs."""

    def __init__(self, url: str) -> None:
        """`url` is the ping URL. Without a usable URL the command runs without reports."""
        is_usable = _is_http_url(url.strip())
        parts = urlsplit(url.strip() if is_usable else "http://unusable")
        self._parts = parts._replace(fragment="")
        self._host = parts.netloc.rpartition("@")[2]
        self._run_id = str(uuid.uuid4())
        self._opener = urllib.request.build_opener(_NoRedirects)
        self._queue: queue.SimpleQueue[tuple[str, bytes] | None] = queue.SimpleQueue()
        self._command_ended = threading.Event()
        self._deadline = float("inf")
        self._thread = threading.Thread(target=self._send_all, name="reports", daemon=True)
        self.can_send = is_usable and self._start()
        if not is_usable:
            _warn("there is no ping URL (https://host/ping/...); see pharos-run --help")

    def _start(self) -> bool:
        try:
            self._thread.start()
        except RuntimeError as error:
            _warn(f"nothing is reported: {error}")
            return False
        return True

    def send(self, action: str, output: bytes = b"") -> None:
        """Queue a report and return immediately. `action`: the end of the path, `/start` or `/` and the exit status."""
        self._queue.put((action, output))

    def finish(self) -> None:
        """Wait until all reports are sent, for a limited time."""
        self._deadline = time.monotonic() + _GIVE_UP_SECONDS
        self._command_ended.set()
        self._queue.put(None)
        if self.can_send:
            self._thread.join(_GIVE_UP_SECONDS + _LOOKUP_SECONDS)
            if self._thread.is_alive():
                _warn(f"the end was not reported: {self._host} did not respond in time")

    def _send_all(self) -> None:
        while True:
            report = self._queue.get()
            if report is None:
                return
            fault = self._send(*report)
            if fault is not None:
                what = "the start" if report[0] == "/start" else "the end"
                _warn(f"{what} was not reported: {fault}")

    def _send(self, action: str, output: bytes) -> str | None:
        """Retry until the report is accepted, permanently refused, or too late. Return the last error."""
        is_start = action == "/start"
        pause = _FIRST_PAUSE
        while True:
            fault, is_final = self._post(action, output)
            if fault is None or is_final:
                return fault
            # Of two queued reports the later one matters more, so it gets the remaining time.
            if is_start and self._command_ended.is_set():
                return fault
            if time.monotonic() + pause > self._deadline:
                return fault
            if is_start:
                self._command_ended.wait(pause)
            else:
                time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _post(self, action: str, output: bytes) -> tuple[str | None, bool]:
        parts = self._parts
        query = "&".join(filter(None, (parts.query, "rid=" + self._run_id)))
        url = urlunsplit(parts._replace(path=parts.path.rstrip("/") + action, query=query))
        left = max(0.5, self._deadline - time.monotonic())
        try:
            headers = {"Content-Type": "text/plain; charset=utf-8", "User-Agent": "pharos-run"}
            request = urllib.request.Request(url, output, headers, method="POST")
            with self._opener.open(request, timeout=min(_REQUEST_SECONDS, left)):
                return None, True
        except urllib.error.HTTPError as error:
            with error:
                return f"the response was {error.code}", error.code < 500 and error.code != 429
        except OSError as error:
            reason = " ".join(str(getattr(error, "reason", error)).split())
            return f"{self._host} does not respond ({reason})", False
        except (ValueError, http.client.InvalidURL):
            # Not the error's own message: it may contain the key.
            return "the address has characters that cannot be sent", True
        except http.client.HTTPException as error:
            return f"{self._host} does not speak HTTP ({type(error).__name__})", False


def _is_http_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _warn(text: str) -> None:
    if sys.stderr is None:
        # Standard error was closed at the start; `print` would write into the output of the job.
        return
    # The reader of standard error may have ended; the job must not fail for that.
    with contextlib.suppress(OSError):
        print("pharos-run: " + text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""`pharos run --heartbeat ID -- command`: runs a scheduled job and reports it.

The job comes first: it starts at once, its exit status is the command's, and whatever happens to the reports is a line
on standard error and nothing more. It runs in cron on many machines, so nothing large is imported.
"""

import argparse
import contextlib
import http.client
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

from operator_cli.credentials import DEFAULT_DATA, api_root, read_credentials
from operator_cli.failure import CommandFailed

KEY_VARIABLE = "PHAROS_HEARTBEAT_KEY"
URL_VARIABLE = "PHAROS_URL"

_CALL_SECONDS = 3.0
# After the command has ended. Before that a start may be tried for as long as the command runs.
_PATIENCE_SECONDS = 10.0
# Beyond that, for a call that outlives its time limit: looking a host's name up heeds none.
_LOOKUP_SECONDS = 1.0
_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 5.0
_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
# As a shell says it.
_NOT_FOUND = 127
_NOT_EXECUTABLE = 126
_BY_SIGNAL = 128


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "run",
        help="run a scheduled job, and report it to its heartbeat",
        usage="pharos run --heartbeat ID [--key KEY] [--url URL] [--data DIR] -- command …",
        description="Run a command and report its start and whether it succeeded, by its exit status. The exit status "
        "is the command's; a report that cannot be made is a line on standard error. The key is --key, or "
        f"{KEY_VARIABLE}, or that of the data folder's credentials.json; the address --url, or {URL_VARIABLE}, or that "
        "of credentials.json.",
    )
    parser.add_argument(
        "--heartbeat", type=int, required=True, metavar="ID", help="the heartbeat that it reports to"
    )
    parser.add_argument("--key", help=f"its key, phr_mon_… (better in {KEY_VARIABLE}: others see arguments)")
    parser.add_argument("--url", help="where Pharos is, https://host or https://host/api")
    parser.add_argument(
        "--data", type=Path, default=DEFAULT_DATA, metavar="DIR", help="data folder (./.pharos)"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the command and its arguments, after --")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise CommandFailed("Say what to run, after --: pharos run --heartbeat 1 -- /usr/local/bin/backup")
    reports = _Reports(*_destination(arguments))
    reports.send("start")
    status = _run_command(command)
    reports.send("success" if status == 0 else "failure")
    reports.finish()
    return status


def _destination(arguments: argparse.Namespace) -> tuple[str, str | None]:
    """Where signals go, and the key; without a key nothing can be reported, and the job runs all the same."""
    key = arguments.key or os.environ.get(KEY_VARIABLE)
    url = arguments.url or os.environ.get(URL_VARIABLE)
    if not key or not url:
        known_url, known_key = _of_data_folder(arguments.data, arguments.heartbeat)
        url, key = url or known_url, key or known_key
    root = api_root(url or "")
    if not key or not _is_address(root):
        missing = "address (http://host)" if key else "key"
        _complain(f"there is no {missing} of heartbeat {arguments.heartbeat}; see pharos run --help")
        return root, None
    return f"{root}/v1/heartbeats/{arguments.heartbeat}", key.strip()


def _of_data_folder(data: Path, heartbeat: int) -> tuple[str | None, str | None]:
    """The address, and the key of this heartbeat, as far as the data folder has them."""
    known: Any
    try:
        known = read_credentials(data)
    except CommandFailed:
        return None, None
    if not isinstance(known, dict):
        return None, None
    url, first = known.get("base_url"), known.get("heartbeat")
    key = first.get("key") if isinstance(first, dict) and first.get("id") == heartbeat else None
    return url if isinstance(url, str) else None, key if isinstance(key, str) else None


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _run_command(command: list[str]) -> int:
    """Run the command and pass signals on to it; gives its exit status as a shell has it."""
    environment = {name: value for name, value in os.environ.items() if name != KEY_VARIABLE}
    child: subprocess.Popen[bytes] | None = None
    early: list[int] = []
    # Ctrl-C in a terminal reaches the command by itself.
    at_terminal = sys.stdin is not None and sys.stdin.isatty()

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if at_terminal and number == signal.SIGINT:
            return
        if child is None:
            early.append(number)
        else:
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(number)

    # What is ignored here (nohup, a job in the background) the command is to ignore as well.
    passed_on = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    # Before the command starts: there must be no moment in which a signal would end this process alone.
    before = {number: signal.signal(number, pass_on) for number in passed_on}
    try:
        child = subprocess.Popen(command, env=environment)
        for number in early:
            child.send_signal(number)
        status = child.wait()
    except FileNotFoundError:
        _complain(f"{command[0]}: not found")
        return _NOT_FOUND
    except OSError as error:
        _complain(f"{command[0]}: {error.strerror}")
        return _NOT_EXECUTABLE
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return status if status >= 0 else _BY_SIGNAL - status


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The key is for this address only, and a signal that becomes a GET elsewhere reports nothing."""

    def redirect_request(self, *_: Any) -> None:
        return None


class _Reports:
    """Sends signals one after the other, beside the command."""

    def __init__(self, url: str, key: str | None) -> None:
        self._url = url
        self._key = key
        self._host = urlsplit(url).netloc.rpartition("@")[2] if key else ""
        self._opener = urllib.request.build_opener(_NoRedirects)
        self._run_id = str(uuid.uuid4())
        self._waiting: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._deadline = float("inf")
        self._thread = threading.Thread(target=self._work, name="reports", daemon=True)
        if key is not None:
            self._thread.start()

    def send(self, name: str) -> None:
        """Have this signal sent; returns at once."""
        self._waiting.put(name)

    def finish(self) -> None:
        """Wait until all is sent, for some seconds at most."""
        self._deadline = time.monotonic() + _PATIENCE_SECONDS
        self._ended.set()
        self._waiting.put(None)
        if self._key is not None:
            self._thread.join(_PATIENCE_SECONDS + _LOOKUP_SECONDS)
            if self._thread.is_alive():
                _complain(f"the end was not reported: {self._host} does not answer in time")

    def _work(self) -> None:
        while (name := self._waiting.get()) is not None:
            fault = self._send(name)
            if fault is not None:
                _complain(f"{name} was not reported: {fault}")

    def _send(self, name: str) -> str | None:
        """Try until it is taken, refused for good, or too late; gives what went wrong."""
        pause = _FIRST_PAUSE
        while True:
            fault, is_final = self._try(name)
            if fault is None or is_final:
                return fault
            # Of two signals that wait the later one matters more: it gets the time that is left.
            if name == "start" and self._ended.is_set():
                return fault
            if time.monotonic() + pause > self._deadline:
                return fault
            if name == "start":
                self._ended.wait(pause)
            else:
                time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _try(self, name: str) -> tuple[str | None, bool]:
        body = f'{{"run_id":"{self._run_id}","signal":"{name}"}}'.encode()
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        request = urllib.request.Request(self._url, body, headers, method="POST")
        left = max(0.5, self._deadline - time.monotonic())
        try:
            with self._opener.open(request, timeout=min(_CALL_SECONDS, left)):
                return None, True
        except urllib.error.HTTPError as error:
            with error:
                return f"the answer was {error.code}", error.code < 500 and error.code != 429
        except OSError as error:
            reason = " ".join(str(getattr(error, "reason", error)).split())
            return f"{self._host} does not answer ({reason})", False
        except (ValueError, http.client.InvalidURL):
            # Not in the error's own words: they may hold the key.
            return "the address or the key has characters that cannot be sent", True
        except http.client.HTTPException as error:
            return f"{self._host} does not speak HTTP ({type(error).__name__})", False


def _complain(text: str) -> None:
    if sys.stderr is None:
        # Closed from the start; `print` would write among what the job prints.
        return
    # Whoever reads the job's errors may be gone; the job is not to end for that.
    with contextlib.suppress(OSError):
        print(f"pharos run: {text}", file=sys.stderr, flush=True)

"""Command `pharos run --heartbeat ID -- command`: run a scheduled job and report it.

Reports never affect the job: it starts at once (without a key, after at most 5 s in which the login of this user finds
the ping URL of the heartbeat), `pharos run` exits with its status, and a failed report is only a line on standard
error. Cron runs this on many machines, so it imports nothing large.
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
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

from operator_cli.credentials import DEFAULT_DATA, append_api_root, read_credentials
from operator_cli.errors import CommandFailed

KEY_VARIABLE = "PHAROS_HEARTBEAT_KEY"
URL_VARIABLE = "PHAROS_URL"

_REQUEST_SECONDS = 3.0
# Counted from the end of the command. Before that, the start signal is retried for as long as the command runs.
_GIVE_UP_SECONDS = 10.0
# The job does not wait longer for its ping URL.
_FIND_SECONDS = 5.0
# In addition, because the lookup of a host name ignores the time limit of a request.
_LOOKUP_SECONDS = 1.0
_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 5.0
_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_PING_ENDINGS = {"start": "/start", "success": "", "failure": "/fail"}
# Exit statuses of a shell.
_NOT_FOUND = 127
_NOT_EXECUTABLE = 126
_BY_SIGNAL = 128

_Found = tuple[str, str | None]


def register_run(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "run",
        help="run a scheduled job, and report it to its heartbeat",
        usage="pharos run --heartbeat HEARTBEAT [--key KEY] [--url URL] [--data DIR]\n                  -- command …",
        description="Run a command and report its start and whether it succeeded, by its exit status. The exit status "
        "is the command's; a report that fails is a line on standard error. The key is --key, or "
        f"{KEY_VARIABLE}, or that of the data folder's credentials.json; without a key, the command finds the ping URL "
        f"of the heartbeat with the login of this user. The address is --url, or {URL_VARIABLE}, or that of "
        "credentials.json.",
    )
    parser.add_argument(
        "--heartbeat",
        required=True,
        metavar="HEARTBEAT",
        help="the heartbeat that it reports to: its number, or its name if this user is logged in",
    )
    parser.add_argument(
        "--key",
        help=f"the key of the heartbeat, phr_mon_… (better in {KEY_VARIABLE}: other users can read arguments)",
    )
    parser.add_argument("--url", help="address of Pharos, https://host or https://host/api")
    parser.add_argument(
        "--data", type=Path, default=DEFAULT_DATA, metavar="DIR", help="data folder (./.pharos)"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the command and its arguments, after --")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise CommandFailed(
            "Add the command to run after --: pharos run --heartbeat 1 -- /usr/local/bin/backup"
        )
    reports = _Reports(*_find_target(arguments))
    reports.send("start")
    status = _run_command(command)
    reports.send("success" if status == 0 else "failure")
    reports.finish()
    return status


def _find_target(arguments: argparse.Namespace) -> tuple[str, str | None]:
    """Return the URL for signals and the key, which is empty for a ping URL. For None the job runs unreported."""
    key = (arguments.key or os.environ.get(KEY_VARIABLE) or "").strip() or None
    url = arguments.url or os.environ.get(URL_VARIABLE)
    if not key or not url:
        known_url, known_key = _read_data_folder(arguments.data, arguments.heartbeat)
        url, key = url or known_url, key or known_key
    root = append_api_root(url or "")
    reason = ""
    if not arguments.heartbeat.isdecimal() or (not key and not arguments.url):
        try:
            number, ping_url = _within(_FIND_SECONDS, lambda: _find_by_login(arguments, needs_url=not key))
        except CommandFailed as error:
            reason = f" ({error})"
            if not arguments.heartbeat.isdecimal():
                key = None
        else:
            if not key and ping_url:
                return ping_url, ""
            arguments.heartbeat = number
    if not key or not _is_http_url(root):
        missing = "address (http://host)" if key else "key"
        remedy = (
            f"add --url, or set {URL_VARIABLE}"
            if key
            else f"make one with `pharos heartbeat new-key {arguments.heartbeat}`, then `export {KEY_VARIABLE}=KEY`"
        )
        _warn(
            f"the job runs unreported: there is no {missing} of heartbeat {arguments.heartbeat}. To report it, "
            f"{remedy}{reason}"
        )
        return root, None
    return f"{root}/v1/heartbeats/{arguments.heartbeat}", key.strip()


def _within(seconds: float, find: Callable[[], _Found]) -> _Found:
    """Return what `find` returns. Raises `CommandFailed` if it fails or takes longer: the job must run in any case."""
    found: queue.SimpleQueue[_Found | Exception] = queue.SimpleQueue()

    def run() -> None:
        try:
            found.put(find())
        except Exception as error:
            found.put(error)

    threading.Thread(target=run, name="ping URL", daemon=True).start()
    try:
        result = found.get(timeout=seconds)
    except queue.Empty:
        raise CommandFailed(f"the ping URL was not found within {seconds:g} s") from None
    if isinstance(result, CommandFailed):
        raise result
    if isinstance(result, Exception):
        raise CommandFailed(f"the ping URL was not found: {type(result).__name__}") from result
    return result


def _find_by_login(arguments: argparse.Namespace, *, needs_url: bool) -> _Found:
    """Return the number of the heartbeat, and its ping URL if the token may read it. Raises `CommandFailed`."""
    # Imported here: jobs that have a key and a number need none of it.
    from operator_cli.api.client import Api
    from operator_cli.api.target import find_target
    from operator_cli.monitors.find_monitor import find_monitor
    from operator_cli.monitors.heartbeat import read_ping_keys

    data = None if arguments.data == DEFAULT_DATA else arguments.data
    target = find_target(argparse.Namespace(data=data), announces=False)
    api = Api(target, seconds=_REQUEST_SECONDS, is_quiet=True)
    heartbeat = find_monitor(api, "heartbeat", arguments.heartbeat)
    keys = (read_ping_keys(api, heartbeat) or []) if needs_url else []
    paths = [key["urls"]["success"] for key in keys if key["state"] == "live" and key["urls"]]
    host = target.base_url.removesuffix("/api")
    return str(heartbeat["id"]), host + paths[0] if paths else None


def _read_data_folder(data: Path, heartbeat: str) -> tuple[str | None, str | None]:
    """Return the address, and the key of this heartbeat, if the data folder has them."""
    known: Any
    try:
        known = read_credentials(data)
    except CommandFailed:
        return None, None
    if not isinstance(known, dict):
        return None, None
    url, first = known.get("base_url"), known.get("heartbeat")
    key = first.get("key") if isinstance(first, dict) and str(first.get("id")) == heartbeat else None
    return url if isinstance(url, str) else None, key if isinstance(key, str) else None


def _is_http_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _run_command(command: list[str]) -> int:
    """Run the command and forward signals to it. Return its exit status as a shell does."""
    environment = {name: value for name, value in os.environ.items() if name != KEY_VARIABLE}
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
    try:
        child = subprocess.Popen(command, env=environment)
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
        for number, handler in previous.items():
            signal.signal(number, handler)
    return status if status >= 0 else _BY_SIGNAL - status


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: the key is for this address only, and a redirected POST becomes a GET that reports nothing."""

    def redirect_request(self, *_: Any) -> None:
        return None


class _Reports:
    """Sends signals one after the other, in a thread next to the command."""

    def __init__(self, url: str, key: str | None) -> None:
        self._url = url
        self._key = key
        self._host = urlsplit(url).netloc.rpartition("@")[2] if key is not None else ""
        self._opener = urllib.request.build_opener(_NoRedirects)
        self._run_id = str(uuid.uuid4())
        self._signals: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._command_ended = threading.Event()
        self._deadline = float("inf")
        self._thread = threading.Thread(target=self._send_all, name="reports", daemon=True)
        if key is not None:
            self._thread.start()

    def send(self, name: str) -> None:
        """Queue a signal and return at once."""
        self._signals.put(name)

    def finish(self) -> None:
        """Wait until all signals are sent, for a limited time."""
        self._deadline = time.monotonic() + _GIVE_UP_SECONDS
        self._command_ended.set()
        self._signals.put(None)
        if self._key is not None:
            self._thread.join(_GIVE_UP_SECONDS + _LOOKUP_SECONDS)
            if self._thread.is_alive():
                _warn(f"the end was not reported: {self._host} did not respond in time")

    def _send_all(self) -> None:
        while (name := self._signals.get()) is not None:
            fault = self._send(name)
            if fault is not None:
                _warn(f"{name} was not reported: {fault}")

    def _send(self, name: str) -> str | None:
        """Retry until the signal is accepted, refused for good, or too late. Return the last error."""
        pause = _FIRST_PAUSE
        while True:
            fault, is_final = self._post(name)
            if fault is None or is_final:
                return fault
            # Of two queued signals the later one matters more, so it gets the remaining time.
            if name == "start" and self._command_ended.is_set():
                return fault
            if time.monotonic() + pause > self._deadline:
                return fault
            if name == "start":
                self._command_ended.wait(pause)
            else:
                time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _post(self, name: str) -> tuple[str | None, bool]:
        body = f'{{"run_id":"{self._run_id}","signal":"{name}"}}'.encode()
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        url = self._url
        if self._key == "":
            url, body, headers = f"{url}{_PING_ENDINGS[name]}?rid={self._run_id}", b"", {}
        left = max(0.5, self._deadline - time.monotonic())
        try:
            request = urllib.request.Request(url, body, headers, method="POST")
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
            return "the address or the key has characters that cannot be sent", True
        except http.client.HTTPException as error:
            return f"{self._host} does not speak HTTP ({type(error).__name__})", False


def _warn(text: str) -> None:
    if sys.stderr is None:
        # Standard error was closed at the start; `print` would write into the output of the job.
        return
    # The reader of standard error may have ended; the job must not fail for that.
    with contextlib.suppress(OSError):
        print(f"pharos run: {text}", file=sys.stderr, flush=True)

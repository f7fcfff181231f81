"""`pharos run` with real commands and a real server that accepts signals, fails, or is unavailable."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from operator_cli.monitors import run as run_command
from tests.operator_cli.run_with_time_limits import command_with_time_limits, program_with_time_limits
from tests.support import fork_server
from tests.support.failing_jobs import FAILING_JOBS, UNSENDABLE_ADDRESSES, UNUSABLE_ADDRESSES

KEY = "phr_mon_secret"
# Reached only if something is wrong.
_SECONDS = 120


class Recorder(ThreadingHTTPServer):
    """A server that records signals and sends the configured responses."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.calls: list[tuple[str, str, dict[str, Any]]] = []
        self.statuses: list[int] = []
        self.before_answer: Callable[[], object] = lambda: None
        self.location: str | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/api"

    def signals(self) -> list[str]:
        return [body["signal"] for _, _, body in self.calls]


class _Handler(BaseHTTPRequestHandler):
    server: Recorder

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.calls.append((self.path, self.headers["Authorization"], body))
        self.server.before_answer()
        status = self.server.statuses.pop(0) if self.server.statuses else 202
        self.send_response(status)
        if self.server.location is not None:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.server.calls.append((self.path, self.headers["Authorization"] or "", {"signal": "GET"}))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        return None


@contextlib.contextmanager
def recording() -> Iterator[Recorder]:
    server = Recorder()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with recording() as server:
        yield server


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A port on which only the test responds."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def _command(*command: str, url: str | None = None, **seconds: float) -> list[str]:
    options = ["--url", url] if url else []
    return [*command_with_time_limits(**seconds), "run", "--heartbeat", "7", *options, "--", *command]


def _program(*command: str, url: str) -> list[str]:
    """Return the same command for a shell, without the fork server."""
    return [
        sys.executable,
        "-c",
        program_with_time_limits(),
        "run",
        "--heartbeat",
        "7",
        "--url",
        url,
        "--",
        *command,
    ]


def run(
    *command: str, url: str, seconds: dict[str, float] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PHAROS_HEARTBEAT_KEY": KEY}
    return fork_server.run(
        _command(*command, url=url, **(seconds or {})),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        env=environment,
        stdin=subprocess.DEVNULL,
        **options,
    )


def test_a_successful_command_reports_start_and_success(recorder: Recorder) -> None:
    done = run("sh", "-c", "echo out; echo err >&2; cat", url=recorder.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "err\n")
    assert recorder.signals() == ["start", "success"]
    paths, keys, bodies = zip(*recorder.calls, strict=True)
    assert set(paths) == {"/api/v1/heartbeats/7"}
    assert set(keys) == {f"Bearer {KEY}"}
    assert len({body["run_id"] for body in bodies}) == 1


@pytest.mark.parametrize(("command", "status"), FAILING_JOBS, ids=str)
def test_a_failed_command_reports_failure_and_its_status(
    recorder: Recorder, command: list[str], status: int
) -> None:
    done = run(*command, url=recorder.url)
    assert done.returncode == status
    assert recorder.signals() == ["start", "failure"]
    assert "Traceback" not in done.stderr


def test_the_command_gets_its_arguments_and_environment_unchanged(recorder: Recorder) -> None:
    """No shell interprets the arguments, and the key is not passed to the command."""
    done = run(sys.executable, "-c", "import os, sys; print(sys.argv[1:], os.environ.get('PHAROS_HEARTBEAT_KEY'))",
               "--key", "$HOME; ls", "--", url=recorder.url)  # fmt: skip
    assert done.stdout == "['--key', '$HOME; ls', '--'] None\n"


def test_signals_are_forwarded_to_the_command(recorder: Recorder) -> None:
    """The command handles the signal, and its end is reported."""
    script = "trap 'echo cleaning; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
    process = fork_server.popen(
        _command("sh", "-c", script, url=recorder.url),
        env={**os.environ, "PHAROS_HEARTBEAT_KEY": KEY},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=_SECONDS)
    assert (process.returncode, out) == (5, "cleaning\n")
    assert recorder.signals() == ["start", "failure"]


def test_an_unreachable_server_does_not_fail_the_job(tmp_path: Path) -> None:
    """The job runs immediately and its status is kept. Two lines name the failed reports."""
    job = ("sh", "-c", f"echo ran > {tmp_path}/ran; exit 4")
    done = run(*job, url="http://127.0.0.1:9", seconds={"_GIVE_UP_SECONDS": 2.0})
    assert (done.returncode, (tmp_path / "ran").read_text()) == (4, "ran\n")
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["pharos run"] * 2
    assert KEY not in done.stderr


def test_a_slow_server_does_not_delay_the_job(recorder: Recorder, tmp_path: Path) -> None:
    """The server responds only after the command has started."""
    ran = tmp_path / "ran"
    seen = []

    def wait_for_job() -> None:
        deadline = time.monotonic() + 30
        while not ran.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        seen.append(ran.exists())

    recorder.before_answer = wait_for_job
    done = run("touch", str(ran), url=recorder.url)
    assert (done.returncode, seen) == (0, [True, True])
    assert recorder.signals() == ["start", "success"]


def test_transient_errors_are_retried(recorder: Recorder, tmp_path: Path) -> None:
    recorder.statuses = [503, 429, 202, 503, 202]
    taken = tmp_path / "taken"

    def tell_job() -> None:
        if len(recorder.calls) == 3:
            taken.touch()

    recorder.before_answer = tell_job
    # The command runs until the start signal is accepted; otherwise the test fails before the command gives up.
    job = f"for n in $(seq {10 * _SECONDS}); do test -e {taken} && exit; sleep 0.1; done; exit 1"
    done = run("sh", "-c", job, url=recorder.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert recorder.signals() == ["start", "start", "start", "success", "success"]


def test_permanent_errors_are_not_retried(recorder: Recorder) -> None:
    recorder.statuses = [401, 401]
    done = run("true", url=recorder.url)
    assert done.returncode == 0
    assert recorder.signals() == ["start", "success"]
    assert done.stderr.count("the response was 401") == 2


def test_the_key_is_read_from_the_data_folder(recorder: Recorder, tmp_path: Path) -> None:
    """Only the key of this heartbeat is used."""
    known = {"base_url": recorder.url, "heartbeat": {"id": 7, "key": KEY}}
    (tmp_path / "credentials.json").write_text(json.dumps(known))
    for heartbeat, calls in (("7", 2), ("8", 2)):
        done = fork_server.run(
            [*command_with_time_limits(), "run", "--heartbeat", heartbeat, "--data", str(tmp_path), "--", "true"],
            capture_output=True, text=True, timeout=_SECONDS,
        )  # fmt: skip
        assert (done.returncode, len(recorder.calls)) == (0, calls)
    assert "there is no key of heartbeat 8" in done.stderr


def test_the_address_may_leave_out_the_path_of_the_api(recorder: Recorder) -> None:
    for url in (recorder.url, recorder.url + "/", recorder.url.removesuffix("/api"), recorder.url[:-3]):
        assert run("true", url=url).stderr == ""
    assert {path for path, _, _ in recorder.calls} == {"/api/v1/heartbeats/7"}
    assert recorder.signals() == ["start", "success"] * 4


@pytest.mark.parametrize(
    ("url", "output"),
    [
        *((url, "there is no address") for url in UNUSABLE_ADDRESSES),
        *((url, "characters that cannot be sent") for url in UNSENDABLE_ADDRESSES),
    ],
)
def test_an_unusable_address_is_reported(url: str, output: str) -> None:
    """The job runs anyway."""
    done = run("sh", "-c", "echo ran; exit 4", url=url)
    assert (done.returncode, done.stdout) == (4, "ran\n")
    assert all(line.startswith("pharos run: ") and output in line for line in done.stderr.splitlines())
    assert 1 <= len(done.stderr.splitlines()) <= 2


@pytest.mark.parametrize(
    "content", [b'["x"]', b"1", b"{", b"\xff", b'{"base_url": 1, "heartbeat": "x"}', b'{"heartbeat": []}']
)
def test_invalid_credentials_are_ignored(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "credentials.json").write_bytes(content)
    done = fork_server.run([*_command("true")[:-2], "--data", str(tmp_path), "--", "true"],
                           capture_output=True, text=True, timeout=_SECONDS)  # fmt: skip
    assert (done.returncode, done.stderr.count("there is no key of heartbeat 7")) == (0, 1)
    assert len(done.stderr.splitlines()) == 1


def test_a_key_is_never_shown(recorder: Recorder) -> None:
    """This includes keys that HTTP cannot send."""
    for key in ("phr_mon_\nsecret", "phr_mon_sécret", "phr_mon_€secret"):
        done = fork_server.run([*_command("true", url=recorder.url)[:-2], "--key", key, "--", "true"],
                               capture_output=True, text=True, timeout=_SECONDS)  # fmt: skip
        assert done.returncode == 0
        assert "cret" not in done.stderr + done.stdout


def test_a_redirect_is_not_followed(recorder: Recorder) -> None:
    """The key is not sent to the other address, and a page there does not count as a report."""
    with recording() as elsewhere:
        recorder.statuses = [302, 307]
        recorder.location = elsewhere.url
        done = run("true", url=recorder.url)
        assert elsewhere.calls == []
    assert done.returncode == 0
    assert ["the response was 302" in done.stderr, "the response was 307" in done.stderr] == [True, True]


def test_a_server_that_does_not_speak_http_is_reported(listener: socket.socket) -> None:
    """Both signals are attempted, with one line for each."""
    heard = []

    def answer() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    # Head and body arrive separately.
                    request = b""
                    while b"}" not in request and (piece := connection.recv(65536)):
                        request += piece
                    heard.append(request)
                    connection.sendall(b"220 mail.example ESMTP\r\n")

    threading.Thread(target=answer, daemon=True).start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/api"
    done = run("sh", "-c", "exit 3", url=url, seconds={"_GIVE_UP_SECONDS": 2.0})
    listener.shutdown(socket.SHUT_RDWR)
    assert done.returncode == 3
    assert any(b"failure" in request for request in heard)
    assert [line.partition(" was ")[0] for line in done.stderr.splitlines()] == [
        "pharos run: start",
        "pharos run: failure",
    ]


def test_a_hanging_request_is_abandoned(listener: socket.socket) -> None:
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/api"
    done = run("sh", "-c", "exit 6", url=url, seconds={"_REQUEST_SECONDS": 0.5, "_GIVE_UP_SECONDS": 2.0})
    assert done.returncode == 6
    assert [line.partition(" was ")[0] for line in done.stderr.splitlines()] == [
        "pharos run: start",
        "pharos run: failure",
    ]


class _Hanging:
    """A clock, and a server that lets each request wait until its time limit."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.signals: list[str] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def open(self, request: urllib.request.Request, timeout: float) -> None:
        assert isinstance(request.data, bytes)
        self.signals.append(json.loads(request.data)["signal"])
        self.now += timeout
        raise TimeoutError


def test_a_hanging_server_delays_the_exit_by_ten_seconds_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit counts from the end of the command. The last request has at least half a second."""
    server = _Hanging()
    monkeypatch.setattr(run_command, "time", server)
    reports = run_command._Reports("http://127.0.0.1:9/api", None)
    monkeypatch.setattr(reports, "_opener", server)
    # Nothing was sent before, and no thread sends during the test.
    reports.finish()
    for name in ("start", "failure"):
        assert reports._send(name) == " does not respond ()"
    assert 1009.0 < server.now <= 1010.5
    assert server.signals == ["start", "failure", "failure", "failure"]


def test_ignored_signals_stay_ignored(recorder: Recorder) -> None:
    """With `nohup pharos run …` the job survives its terminal."""
    script = "import signal; print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)"
    command = [
        "sh",
        "-c",
        'trap "" HUP; exec "$@"',
        "sh",
        *_program(sys.executable, "-c", script, url=recorder.url),
    ]
    assert subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS).stdout == "True\n"


def test_messages_do_not_mix_with_the_output_of_the_job() -> None:
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", *_program("echo", "ran", url="http://[bad")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")


def test_a_missing_command_is_refused() -> None:
    done = fork_server.run(_command(), capture_output=True, text=True, timeout=_SECONDS)
    assert done.returncode == 1
    assert "Add the command to run after --" in done.stderr

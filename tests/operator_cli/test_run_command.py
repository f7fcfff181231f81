"""`pharos run` around real commands, with a real server that takes the signals, fails, or is not there."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

KEY = "phr_mon_secret"


class Recorder(ThreadingHTTPServer):
    """Writes down what comes, and answers as it is told to."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.calls: list[tuple[str, str, dict[str, Any]]] = []
        self.statuses: list[int] = []
        self.delay = 0.0
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
        time.sleep(self.server.delay)
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
    """A port on which nobody answers unless the test does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def _command(*command: str, url: str | None = None) -> list[str]:
    options = ["--url", url] if url else []
    return [sys.executable, "-m", "operator_cli.main", "run", "--heartbeat", "7", *options, "--", *command]


def run(*command: str, url: str, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PHAROS_HEARTBEAT_KEY": KEY}
    return subprocess.run(
        _command(*command, url=url),
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        stdin=subprocess.DEVNULL,
        **options,
    )


def test_a_command_that_succeeds(recorder: Recorder) -> None:
    done = run("sh", "-c", "echo out; echo err >&2; cat", url=recorder.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "err\n")
    assert recorder.signals() == ["start", "success"]
    paths, keys, bodies = zip(*recorder.calls, strict=True)
    assert set(paths) == {"/api/v1/heartbeats/7"}
    assert set(keys) == {f"Bearer {KEY}"}
    assert len({body["run_id"] for body in bodies}) == 1


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["sh", "-c", "exit 3"], 3),
        (["sh", "-c", "kill -9 $$"], 137),
        (["sh", "-c", "kill -TERM $$"], 143),
        (["no-such-command"], 127),
        (["/etc/passwd"], 126),
    ],
    ids=str,
)
def test_a_command_that_fails(recorder: Recorder, command: list[str], status: int) -> None:
    done = run(*command, url=recorder.url)
    assert done.returncode == status
    assert recorder.signals() == ["start", "failure"]
    assert "Traceback" not in done.stderr


def test_arguments_and_the_environment_are_the_commands_own(recorder: Recorder) -> None:
    """No shell looks at them, and the key is not handed on."""
    done = run(sys.executable, "-c", "import os, sys; print(sys.argv[1:], os.environ.get('PHAROS_HEARTBEAT_KEY'))",
               "--key", "$HOME; ls", "--", url=recorder.url)  # fmt: skip
    assert done.stdout == "['--key', '$HOME; ls', '--'] None\n"


def test_signals_are_passed_on(recorder: Recorder) -> None:
    """The command ends in its own way, and is reported."""
    script = "trap 'echo cleaning; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
    process = subprocess.Popen(
        _command("sh", "-c", script, url=recorder.url),
        env={**os.environ, "PHAROS_HEARTBEAT_KEY": KEY},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (5, "cleaning\n")
    assert recorder.signals() == ["start", "failure"]


def test_the_server_is_away(tmp_path: Path) -> None:
    """The job runs at once and its status stands; two lines say what could not be told."""
    begun = time.monotonic()
    done = run("sh", "-c", f"echo ran > {tmp_path}/ran; exit 4", url="http://127.0.0.1:9")
    assert (done.returncode, (tmp_path / "ran").read_text()) == (4, "ran\n")
    assert time.monotonic() - begun < 20
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["pharos run"] * 2
    assert KEY not in done.stderr


def test_the_server_does_not_hold_the_job_up(recorder: Recorder, tmp_path: Path) -> None:
    """It answers after a second: the command has long begun."""
    recorder.delay = 1.0
    done = run(sys.executable, "-c", "import time; print(time.time())", url=recorder.url)
    begun = float(done.stdout)
    assert begun < time.time() - 1.5
    assert recorder.signals() == ["start", "success"]


def test_what_passes_is_tried_again(recorder: Recorder) -> None:
    recorder.statuses = [503, 429, 202, 503, 202]
    done = run("sleep", "1.2", url=recorder.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert recorder.signals() == ["start", "start", "start", "success", "success"]


def test_what_does_not_pass_is_not(recorder: Recorder) -> None:
    recorder.statuses = [401, 401]
    done = run("true", url=recorder.url)
    assert done.returncode == 0
    assert recorder.signals() == ["start", "success"]
    assert done.stderr.count("the answer was 401") == 2


def test_the_key_of_the_data_folder(recorder: Recorder, tmp_path: Path) -> None:
    """That of this heartbeat only."""
    known = {"base_url": recorder.url, "heartbeat": {"id": 7, "key": KEY}}
    (tmp_path / "credentials.json").write_text(json.dumps(known))
    for heartbeat, calls in (("7", 2), ("8", 2)):
        done = subprocess.run(
            [sys.executable, "-m", "operator_cli.main", "run", "--heartbeat", heartbeat, "--data", str(tmp_path),
             "--", "true"],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert (done.returncode, len(recorder.calls)) == (0, calls)
    assert "there is no key of heartbeat 8" in done.stderr


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://[bad", "there is no address"),
        ("ftp://127.0.0.1", "there is no address"),
        ("http://", "there is no address"),
        ("127.0.0.1:8000/api", "there is no address"),
        ("http://127.0.0.1:9/a b", "characters that cannot be sent"),
        ("http://127.0.0.1:port/api", "characters that cannot be sent"),
    ],
)
def test_an_address_that_cannot_be_used(url: str, told: str) -> None:
    """The job runs all the same."""
    done = run("sh", "-c", "echo ran; exit 4", url=url)
    assert (done.returncode, done.stdout) == (4, "ran\n")
    assert all(line.startswith("pharos run: ") and told in line for line in done.stderr.splitlines())
    assert 1 <= len(done.stderr.splitlines()) <= 2


@pytest.mark.parametrize(
    "content", [b'["x"]', b"1", b"{", b"\xff", b'{"base_url": 1, "heartbeat": "x"}', b'{"heartbeat": []}']
)
def test_credentials_that_are_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "credentials.json").write_bytes(content)
    done = subprocess.run([*_command("true")[:6], "--data", str(tmp_path), "--", "true"],
                          capture_output=True, text=True, timeout=60)  # fmt: skip
    assert (done.returncode, done.stderr.count("there is no key of heartbeat 7")) == (0, 1)
    assert len(done.stderr.splitlines()) == 1


def test_a_key_is_never_shown(recorder: Recorder) -> None:
    """Not even one that HTTP cannot carry."""
    for key in ("phr_mon_\nsecret", "phr_mon_sécret", "phr_mon_€secret"):
        done = subprocess.run([*_command("true", url=recorder.url)[:-2], "--key", key, "--", "true"],
                              capture_output=True, text=True, timeout=60)  # fmt: skip
        assert done.returncode == 0
        assert "cret" not in done.stderr + done.stdout


def test_a_redirect_is_not_followed(recorder: Recorder) -> None:
    """The key stays here, and a page that is found elsewhere is no report."""
    with recording() as elsewhere:
        recorder.statuses = [302, 307]
        recorder.location = elsewhere.url
        done = run("true", url=recorder.url)
        assert elsewhere.calls == []
    assert done.returncode == 0
    assert ["the answer was 302" in done.stderr, "the answer was 307" in done.stderr] == [True, True]


def test_what_answers_speaks_no_http(listener: socket.socket) -> None:
    """Both signals are tried, and each is one line."""
    heard = []

    def answer() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    # Head and body come one after the other.
                    request = b""
                    while b"}" not in request and (piece := connection.recv(65536)):
                        request += piece
                    heard.append(request)
                    connection.sendall(b"220 mail.example ESMTP\r\n")

    threading.Thread(target=answer, daemon=True).start()
    done = run("sh", "-c", "exit 3", url=f"http://127.0.0.1:{listener.getsockname()[1]}/api")
    listener.shutdown(socket.SHUT_RDWR)
    assert done.returncode == 3
    assert any(b"failure" in request for request in heard)
    assert [line.partition(" was ")[0] for line in done.stderr.splitlines()] == [
        "pharos run: start",
        "pharos run: failure",
    ]


def test_a_server_that_hangs_costs_ten_seconds_at_most(listener: socket.socket) -> None:
    begun = time.monotonic()
    done = run("sh", "-c", "exit 6", url=f"http://127.0.0.1:{listener.getsockname()[1]}/api")
    assert done.returncode == 6
    assert time.monotonic() - begun < 12
    assert [line.partition(" was ")[0] for line in done.stderr.splitlines()] == [
        "pharos run: start",
        "pharos run: failure",
    ]


def test_what_was_ignored_stays_so(recorder: Recorder) -> None:
    """`nohup pharos run …`: the job outlives its terminal, as it would alone."""
    script = "import signal; print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)"
    command = [
        "sh",
        "-c",
        'trap "" HUP; exec "$@"',
        "sh",
        *_command(sys.executable, "-c", script, url=recorder.url),
    ]
    assert subprocess.run(command, capture_output=True, text=True, timeout=60).stdout == "True\n"


def test_complaints_do_not_mix_with_what_the_job_prints() -> None:
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", *_command("echo", "ran", url="http://[bad")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")


def test_nothing_to_run() -> None:
    done = subprocess.run(_command(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "Say what to run, after --" in done.stderr

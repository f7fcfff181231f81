"""The single-file `pharos_run.py` with real commands, and a real server that accepts pings, fails, or is
unavailable."""

import ast
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.compose_file import ROOT
from tests.support.failing_jobs import FAILING_JOBS, UNSENDABLE_ADDRESSES, UNUSABLE_ADDRESSES

SCRIPT = ROOT / "clients" / "run" / "pharos_run.py"
KEY = "phr_png_secret"
# Reached only if something is wrong.
_SECONDS = 120
_LIMITS = {"_REQUEST_SECONDS": 60.0, "_GIVE_UP_SECONDS": 60.0, "_LOOKUP_SECONDS": 60.0}


class Call(NamedTuple):
    path: str
    query: dict[str, list[str]]
    body: bytes


class Recorder(ThreadingHTTPServer):
    """A server that records pings and sends the configured responses."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.calls: list[Call] = []
        self.statuses: list[int] = []
        self.before_answer: Callable[[], object] = lambda: None
        self.location: str | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/ping/{KEY}"

    def endings(self) -> list[str]:
        return [call.path.removeprefix(f"/ping/{KEY}") for call in self.calls]


class _Handler(BaseHTTPRequestHandler):
    server: Recorder

    def do_POST(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.calls.append(Call(parts.path, parse_qs(parts.query), body))
        self.server.before_answer()
        self.send_response(self.server.statuses.pop(0) if self.server.statuses else 200)
        if self.server.location is not None:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.server.calls.append(Call(self.path, {}, b"GET"))
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


def program(*arguments: str, **seconds: float) -> list[str]:
    """Return the command line of the script with these time limits.

    Other limits are longer than any stall of the machine: a request that times out is sent again, and the server
    receives it twice.
    """
    limits = "; ".join(f"pharos_run.{name} = {value}" for name, value in {**_LIMITS, **seconds}.items())
    code = f"import sys; sys.path.insert(0, {str(SCRIPT.parent)!r}); import pharos_run; {limits}; "
    return [sys.executable, "-c", code + "sys.exit(pharos_run.main())", *arguments]


def run(*command: str, url: str | None, options: tuple[str, ...] = (), **seconds: float) -> Any:
    environment = {name: value for name, value in os.environ.items() if name != "PHAROS_PING_URL"}
    return subprocess.run(
        program(*options, "--", *command, **seconds),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        env=environment if url is None else {**environment, "PHAROS_PING_URL": url},
        stdin=subprocess.DEVNULL,
    )


def test_script_needs_only_python_3_8() -> None:
    tree = ast.parse(SCRIPT.read_text(), feature_version=(3, 8))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {
        name.partition(".")[0]
        for node in imports
        for name in (
            [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        )
    }
    assert names <= sys.stdlib_module_names


def test_a_successful_command_is_reported_with_its_output(recorder: Recorder) -> None:
    done = run("sh", "-c", "echo out; echo err >&2; cat", url=recorder.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "err\n")
    assert recorder.endings() == ["/start", "/0"]
    start, end = recorder.calls
    assert start.query == end.query and list(start.query) == ["rid"]
    assert (start.body, sorted(end.body.splitlines())) == (b"", [b"err", b"out"])


@pytest.mark.parametrize(("command", "status"), FAILING_JOBS, ids=str)
def test_a_failed_command_is_reported_with_its_status(
    recorder: Recorder, command: list[str], status: int
) -> None:
    done = run(*command, url=recorder.url)
    assert done.returncode == status
    assert recorder.endings() == ["/start", f"/{status}"]
    assert "Traceback" not in done.stderr


def test_the_url_is_an_option_or_a_variable(recorder: Recorder) -> None:
    """The URL keeps its parameters, such as `?create=1`. The command does not get the variable."""
    show = "import os, sys; print(sys.argv[1:], os.environ.get('PHAROS_PING_URL'))"
    command = (sys.executable, "-c", show, "--ping-url", "$HOME; ls", "--")
    done = run(*command, url=f"{recorder.url}/nightly?create=1#x")
    assert done.stdout == "['--ping-url', '$HOME; ls', '--'] None\n"
    run("true", url="http://127.0.0.1:9/", options=("--ping-url", f"{recorder.url}/"))
    assert recorder.endings() == ["/nightly/start", "/nightly/0", "/start", "/0"]
    assert recorder.calls[1].query["create"] == ["1"] and "create" not in recorder.calls[2].query


def test_the_end_of_a_long_output_is_sent_and_all_of_it_streams(recorder: Recorder) -> None:
    """Both streams keep their order if they are one file. The output is cut between two characters."""
    script = "for n in $(seq 6000); do echo é$n; echo ü$n >&2; done"
    with subprocess.Popen(
        program("--ping-url", recorder.url, "--", "sh", "-c", script),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
    ) as process:
        out, _ = process.communicate(timeout=_SECONDS)
    expected = "".join(f"é{n}\nü{n}\n" for n in range(1, 6001)).encode()
    assert out == expected
    sent = recorder.calls[-1].body
    assert expected.endswith(sent) and 10 * 1024 - 1 <= len(sent) <= 10 * 1024
    sent.decode()


def test_output_streams_while_the_command_runs(recorder: Recorder) -> None:
    """Signals are forwarded to the command, which ends as it decides."""
    script = "trap 'echo cleaning; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
    process = subprocess.Popen(
        program("--ping-url", recorder.url, "--", "sh", "-c", script),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=_SECONDS)
    assert (process.returncode, out) == (5, "cleaning\n")
    assert recorder.endings() == ["/start", "/5"]
    assert recorder.calls[-1].body == b"ready\ncleaning\n"


def test_a_process_that_the_command_leaves_behind_can_still_write(recorder: Recorder, tmp_path: Path) -> None:
    """The end of the command is reported immediately, and later output still arrives."""
    go, out = tmp_path / "go", tmp_path / "out"
    behind = f"(while ! test -e {go}; do sleep 0.05; done; echo late; echo $? >> {out}.status) &"
    with open(out, "wb") as file:
        done = subprocess.run(
            program("--ping-url", recorder.url, "--", "sh", "-c", f"echo early; {behind} exit 3"),
            stdout=file,
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS,
        )
    assert (done.returncode, recorder.endings(), recorder.calls[-1].body) == (3, ["/start", "/3"], b"early\n")
    assert out.read_text() == "early\n"
    go.touch()
    deadline = time.monotonic() + _SECONDS
    while out.read_text() != "early\nlate\n" or not Path(f"{out}.status").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert Path(f"{out}.status").read_text() == "0\n"


def test_a_command_whose_reader_has_ended_gets_sigpipe(recorder: Recorder) -> None:
    process = subprocess.Popen(
        program("--ping-url", recorder.url, "--", "sh", "-c", "while :; do echo y; done"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(_SECONDS) == 128 + signal.SIGPIPE
    assert recorder.endings() == ["/start", f"/{128 + signal.SIGPIPE}"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk_does_not_end_the_command(recorder: Recorder) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            program("--ping-url", recorder.url, "--", "sh", "-c", "echo one; sleep 0.1; echo two; exit 4"),
            stdout=full,
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS,
        )
    assert (done.returncode, recorder.calls[-1].body) == (4, b"one\ntwo\n")


def test_without_output_the_streams_are_left_alone(recorder: Recorder) -> None:
    show = "import os; print(os.fstat(1).st_ino)"
    with subprocess.Popen(
        program("--no-output", "--ping-url", recorder.url, "--", sys.executable, "-c", show),
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        assert int(process.stdout.read()) == os.fstat(process.stdout.fileno()).st_ino
    assert recorder.endings() == ["/start", "/0"] and recorder.calls[-1].body == b""


def test_an_unreachable_server_does_not_fail_the_job(tmp_path: Path) -> None:
    job = ("sh", "-c", f"echo ran > {tmp_path}/ran; exit 4")
    done = run(*job, url=f"http://127.0.0.1:9/ping/{KEY}", _GIVE_UP_SECONDS=1.0)
    assert (done.returncode, (tmp_path / "ran").read_text()) == (4, "ran\n")
    assert [line.partition(" was ")[0] for line in done.stderr.splitlines()] == [
        "pharos-run: the start",
        "pharos-run: the end",
    ]
    assert KEY not in done.stderr


def test_a_slow_server_does_not_delay_the_job(recorder: Recorder, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    seen = []

    def wait_for_job() -> None:
        deadline = time.monotonic() + 30
        while not ran.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        seen.append(ran.exists())

    recorder.before_answer = wait_for_job
    assert run("touch", str(ran), url=recorder.url).returncode == 0
    assert (seen, recorder.endings()) == ([True, True], ["/start", "/0"])


def test_transient_errors_are_retried_and_permanent_ones_are_not(recorder: Recorder) -> None:
    recorder.statuses = [404, 503, 429, 201]
    done = run("true", url=recorder.url)
    assert done.returncode == 0
    assert recorder.endings() == ["/start", "/0", "/0", "/0"]
    assert len({str(call.query) for call in recorder.calls}) == 1
    assert [
        line for line in done.stderr.splitlines() if "the response was 404" in line
    ] == done.stderr.splitlines()


@pytest.mark.parametrize(
    ("url", "output"),
    [
        *((url, "there is no ping URL") for url in [None, "", *UNUSABLE_ADDRESSES]),
        *((url, "characters that cannot be sent") for url in UNSENDABLE_ADDRESSES),
    ],
)
def test_an_unusable_url_is_reported(url: str | None, output: str) -> None:
    """The job runs anyway."""
    done = run("sh", "-c", "echo ran; exit 4", url=url)
    assert (done.returncode, done.stdout) == (4, "ran\n")
    assert all(line.startswith("pharos-run: ") and output in line for line in done.stderr.splitlines())
    assert 1 <= len(done.stderr.splitlines()) <= 2


def test_a_key_is_never_shown(recorder: Recorder) -> None:
    """This includes keys that HTTP cannot send."""
    for url in (
        f"{recorder.url} x",
        f"{recorder.url}é",
        "http://user:secret@127.0.0.1:9/ping/phr_png_secret",
    ):
        done = run("true", url=url, _GIVE_UP_SECONDS=0.1)
        assert (done.returncode, "cret" in done.stderr + done.stdout) == (0, False)


def test_a_redirect_is_not_followed(recorder: Recorder) -> None:
    with recording() as elsewhere:
        recorder.statuses, recorder.location = [302, 307], elsewhere.url
        done = run("true", url=recorder.url)
        assert elsewhere.calls == []
    assert ["the response was 302" in done.stderr, "the response was 307" in done.stderr] == [True, True]


def test_closed_and_ignored_streams_and_signals(recorder: Recorder) -> None:
    """Streams are as under nohup, or standard error is closed. No line of the program mixes with the job's output."""
    script = "import signal; print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)"
    shell = 'trap "" HUP; exec "$@" 2>&-'
    command = [
        "sh",
        "-c",
        shell,
        "sh",
        *program("--ping-url", recorder.url, "--", sys.executable, "-c", script),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    assert recorder.endings() == ["/start", "/0"]
    broken = ["sh", "-c", 'exec "$@" 2>&-', "sh", *program("--ping-url", "http://[bad", "--", "echo", "ran")]
    done = subprocess.run(broken, capture_output=True, text=True, timeout=_SECONDS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")


def test_a_machine_without_room_for_threads_runs_the_job() -> None:
    code = (
        f"import sys, threading; sys.path.insert(0, {str(SCRIPT.parent)!r}); import pharos_run\n"
        "def start(thread): raise RuntimeError('can not start new thread')\n"
        "threading.Thread.start = start\n"
        "sys.exit(pharos_run.main(sys.argv[1:]))"
    )
    options = ("--ping-url", f"http://127.0.0.1:9/ping/{KEY}", "--", "sh", "-c", "echo ran; exit 4")
    done = subprocess.run(
        [sys.executable, "-c", code, *options], capture_output=True, text=True, timeout=_SECONDS
    )
    assert (done.returncode, done.stdout) == (4, "ran\n")
    assert done.stderr == "pharos-run: nothing is reported: can not start new thread\n"


def test_a_missing_command_is_refused(recorder: Recorder) -> None:
    command = [sys.executable, str(SCRIPT), "--ping-url", recorder.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    assert (done.returncode, recorder.calls) == (2, [])
    assert "add the command to run after --" in done.stderr

"""`pharos doctor`."""

import fcntl
import json
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest

from deployer.processes.start_process import MissingConfinement
from operator_cli.doctor import check_machine
from operator_cli.doctor.check_installation import check_installation
from operator_cli.grammar.build_parser import build_parser
from pipeline_contracts.settings import Settings


def _run(*words: str) -> int:
    arguments = build_parser("doctor").parse_args(["doctor", *words])
    status: int = arguments.run(arguments)
    return status


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PHAROS_INGEST_BURST", "many"),
        ("PHAROS_PUBLIC_URL", "pharos.example"),
        ("PHAROS_DEPLOY_TELEMETRY_URL", "pharos.example"),
    ],
)
def test_settings_with_which_pharos_does_not_start(
    name: str,
    value: str,
    tmp_path: Path,
    free_port: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(name, value)
    assert _run("--data", str(tmp_path), "--port", str(free_port), "--json") == 1
    (found,) = (each for each in json.loads(capsys.readouterr().out) if each["name"] == "Settings")
    assert found["status"] == "error" and name in found["detail"]


def test_a_folder_that_the_user_may_not_enter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "exists", refuse)
    (found,) = check_installation(tmp_path / "data", "127.0.0.1", 1, Settings())
    assert found.status == "error" and "Permission denied" in found.detail


@pytest.fixture
def free_port() -> int:
    """Return a port that was free a moment ago, and is low enough for the ports derived from it."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return min(int(server.getsockname()[1]), 60_000)


@pytest.mark.parametrize("as_json", [True, False])
def test_doctor_reports_this_machine(
    as_json: bool,
    free_port: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PHAROS_ACCELERATOR", "off")
    monkeypatch.setenv("COLUMNS", "80")
    options = ["--data", str(tmp_path / "new"), "--port", str(free_port)]
    assert _run(*options, *["--json"] * as_json) == 0
    printed = capsys.readouterr().out
    validator = "validated by Python (PHAROS_ACCELERATOR is off)"
    if as_json:
        findings = {each["name"]: each for each in json.loads(printed)}
        assert findings["Request bodies"] == {
            "name": "Request bodies",
            "status": "ok",
            "detail": validator,
            "advice": None,
        }
        assert {"Pharos", "Python", "Git", "Disk", f"Port {free_port}"} <= set(findings)
    else:
        assert validator in printed and max(map(len, printed.splitlines())) <= 80


def _make_file(data: Path) -> None:
    data.touch()


def _make_open_folder(data: Path) -> None:
    data.mkdir()
    data.chmod(0o755)


def _make_foreign_folder(data: Path) -> None:
    data.mkdir(mode=0o700)
    (data / "control.sqlite").symlink_to("/nowhere")


@pytest.mark.parametrize(
    ("prepare", "status", "words"),
    [
        (lambda _data: None, "ok", "the first `pharos up` creates it"),
        (_make_file, "error", "is not a folder"),
        (_make_open_folder, "warning", "other users can open it"),
        (_make_foreign_folder, "error", "belongs to another user"),
    ],
)
def test_the_data_folder(
    prepare: Callable[[Path], None], status: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    prepare(data)
    if prepare is _make_foreign_folder:
        monkeypatch.setattr("os.geteuid", lambda: 12345)
    found = {each.name: each for each in check_installation(data, "127.0.0.1", 0, Settings())}["Data folder"]
    assert found.status == status and words in found.detail


def test_a_full_disk_and_a_used_port(tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(total=2**40, used=0, free=2**20))
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = int(server.getsockname()[1])
        metrics = Settings(metrics_listen=f"127.0.0.1:{port}")
        found = {each.name: each for each in check_installation(tmp_path, "127.0.0.1", free_port, metrics)}
    assert found["Disk"].status == "error"
    # `pharos up` starts without its metrics.
    assert found[f"Port {port}"].status == "warning" and "PHAROS_METRICS_LISTEN" in str(
        found[f"Port {port}"].advice
    )


def test_a_running_installation_needs_no_free_ports(tmp_path: Path) -> None:
    with open(tmp_path / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = list(check_installation(tmp_path, "127.0.0.1", 1, Settings()))
        assert [each.name for each in found] == ["Data folder", "Disk", "Running"]
        assert found[-1].status == "warning" and "still starting" in found[-1].detail
        (tmp_path / "credentials.json").write_text('{"base_url": "http://127.0.0.1:1/api"}')
        (*_, running) = check_installation(tmp_path, "127.0.0.1", 1, Settings())
        assert running.status == "error" and "does not respond" in running.detail


def test_a_machine_without_git_and_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    async def probe() -> MissingConfinement:
        return MissingConfinement("no permission", None)

    monkeypatch.setattr(check_machine, "probe_confinement", probe)
    monkeypatch.setattr(check_machine, "operator_groups", lambda: [27])
    monkeypatch.setattr(shutil, "which", lambda *_given, **_named: None)
    found = {each.name: each for each in check_machine.check_machine(Settings())}
    assert (found["Git"].status, found["Namespaces"].status, found["Groups"].status) == (
        "error",
        "warning",
        "warning",
    )
    assert found["Call filter"].status == "ok"


@contextmanager
def _answering(status: int, body: bytes) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, b'{"status": "live"}', "ok"),
        (200, b'{"status": "other"}', "error"),
        (200, b"<html>", "error"),
        (200, b"[" * 100_000, "error"),
        (404, b'{"status": "live"}', "error"),
    ],
)
def test_pharos_at_the_port_is_no_error(status: int, body: bytes, expected: str, tmp_path: Path) -> None:
    with _answering(status, body) as port:
        findings = list(check_installation(tmp_path / "data", "127.0.0.1", port, Settings()))
    found = next(each for each in findings if each.name == f"Port {port}")
    assert found.status == expected
    assert ("Pharos runs there" in found.detail) is (expected == "ok")


def test_the_server_of_the_login_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Local ports and the data folder do not matter to a person who uses another server."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PHAROS_TOKEN", "phr_pat_x")
    refused = b'{"type": "/problems/unauthorized", "detail": "The token is revoked."}'
    for status, body, expected in ((200, b'{"data": {}}', "ok"), (401, refused, "error")):
        with _answering(status, body) as port:
            monkeypatch.setenv("PHAROS_URL", f"http://127.0.0.1:{port}")
            _run("--json")
        findings = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
        assert findings["Server"]["status"] == expected
        assert "Data folder" not in findings and "Port 8000" not in findings

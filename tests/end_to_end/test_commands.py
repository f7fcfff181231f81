"""Commands next to a running platform, and refused starts."""

import json
import os
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest

from tests.support import fork_server
from tests.support.engines import free_port
from tests.support.platform_process import PHAROS, PlatformProcess


def test_receipt_shows_the_status_of_a_batch(platform: PlatformProcess) -> None:
    answer = platform.ingest({"batch_id": uuid.uuid4().hex, "events": [{"type": "job"}]})
    platform.wait_until_consumed()
    done = platform.run("receipt", answer.json["data"]["id"], "--json")
    assert json.loads(done.stdout)["status"] == "stored"
    unknown = platform.run("receipt", "rcp_nonsense")
    assert (unknown.returncode, "404" in unknown.stderr) == (1, True)


def test_query_reads_and_changes_nothing(platform: PlatformProcess) -> None:
    assert platform.query("SELECT 1 AS one") == [{"one": 1}]
    for sql, message in (
        ("DROP TABLE pharos.telemetry_events", "runs one reading query"),
        ("SELECT 1; DROP TABLE pharos.telemetry_events", "Exception"),
        ("SELEC 1", "Exception"),
    ):
        done = platform.run("query", sql)
        assert (done.returncode, message in done.stderr) == (1, True), done.stderr
    assert platform.query("SELECT count() >= 0 AS there FROM pharos.telemetry_events") == [{"there": 1}]


def test_tail_shows_the_newest_event(platform: PlatformProcess) -> None:
    title = f"title {uuid.uuid4().hex}"
    platform.ingest({"batch_id": uuid.uuid4().hex, "events": [{"type": "log", "title": title}]})
    platform.wait_until_consumed()
    done = platform.run("tail", "-n", "5", "--json")
    assert done.returncode == 0, done.stderr
    assert title in done.stdout


def _up(data: Path, port: int, **variables: str) -> subprocess.CompletedProcess[str]:
    return fork_server.run(
        [str(PHAROS), "up", "--data", str(data), "--port", str(port)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=180,
    )


def test_a_second_process_on_the_folder_is_refused(platform: PlatformProcess) -> None:
    done = _up(platform.data, free_port())
    assert (done.returncode, "Another process runs on" in done.stderr) == (1, True)


def test_a_copy_of_the_folder_is_refused(platform: PlatformProcess, tmp_path: Path) -> None:
    """The start is refused before the search for processes, which would adopt those of the original."""
    shutil.copytree(platform.data / "deployer", tmp_path / "data" / "deployer")
    done = _up(tmp_path / "data", free_port())
    assert (done.returncode, "are copies of one folder" in done.stderr) == (1, True), done.stderr
    assert str(platform.data / "deployer") in done.stderr and "Traceback" not in done.stderr


def test_a_port_in_use_is_refused(platform: PlatformProcess, tmp_path: Path) -> None:
    done = _up(tmp_path / "data", platform.port)
    assert (done.returncode, "Choose another --port" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    "variable", ["PHAROS_INGEST_RAT", "PHAROS_INGEST_RATE", "PHAROS_RECEIPT_KEY", "PHAROS_VARIABLES_KEY"]
)
def test_a_bad_setting_fails_the_start_with_its_name(tmp_path: Path, variable: str) -> None:
    done = _up(tmp_path / "data", free_port(), **{variable: "secret-nonsense"})
    assert done.returncode == 2
    assert f"{variable}:" in done.stderr
    if variable.endswith("_KEY"):
        assert "secret-nonsense" not in done.stderr


def test_a_command_without_a_platform_advises_to_start_it(tmp_path: Path) -> None:
    for command in (["query", "SELECT 1"], ["receipt", "rcp_x"], ["dead-letters", "list"], ["tail"]):
        done = fork_server.run(
            [str(PHAROS), *command, "--data", str(tmp_path / "none")],
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert (done.returncode, "pharos up" in done.stderr) == (1, True), command

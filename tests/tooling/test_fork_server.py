"""Programs started by the fork server behave like those started by `subprocess`."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support import fork_server

_ECHO = [sys.executable, "-m", "tests.support.echo_process"]


def test_a_forked_program_behaves_like_a_started_one(tmp_path: Path) -> None:
    """Arguments, environment, folder, streams and exit status are the same."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2]), "COLOUR": "blue"}
    for status in ("0", "7", "text", "raise"):
        results = []
        for run in (fork_server.run, subprocess.run):
            done = run(
                [*_ECHO, status, "ä", "--flag"],
                input="in\n",
                capture_output=True,
                text=True,
                env=environment,
                cwd=tmp_path,
            )
            results.append((done.returncode, json.loads(done.stdout), done.stderr.splitlines()[-1]))
        assert results[0] == results[1], status
        assert results[0][1]["environment"] == environment


def test_a_forked_program_has_a_process_id_and_can_be_killed() -> None:
    with fork_server.popen([*_ECHO, "wait"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        message = json.loads(process.stdout.readline())
        before = process.poll()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.kill()
        assert process.wait(60) == -signal.SIGKILL
    assert (message["pid"], before) == (process.pid, None)
    assert not psutil.pid_exists(process.pid)


def test_programs_start_in_new_sessions_on_request() -> None:
    for new_session in (False, True):
        options = {"stdout": subprocess.PIPE, "start_new_session": new_session}
        with fork_server.popen([*_ECHO, "wait"], text=True, **options) as process:
            assert process.stdout is not None
            process.stdout.readline()
            session = os.getsid(process.pid)
            process.kill()
        assert (session == process.pid) is new_session


def test_other_programs_are_started_by_subprocess() -> None:
    done = fork_server.run([sys.executable, "-c", "print(1)"], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


def test_a_server_that_was_killed_ends_its_programs_and_starts_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fork_server, "_servers", [])
    with fork_server.popen([*_ECHO, "wait"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        fork_server._servers[0]._process.kill()
        assert process.wait(60) == -signal.SIGKILL
        process.stdout.read()
    with pytest.raises(OSError):
        fork_server.popen([*_ECHO, "0"])

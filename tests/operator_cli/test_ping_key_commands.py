"""`pharos ping-key` and the page about ping URLs, whose every block runs, on a running `pharos up`."""

import configparser
import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.commands import CLEAN_ENVIRONMENT, RunCommand, expect_refusal, run_json, run_text
from tests.support.compose_file import ROOT
from tests.support.platform_process import PHAROS, PlatformProcess

_GUIDE = ROOT / "docs" / "guides" / "ping-urls.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BACKUP = "/usr/local/bin/backup"
_PLACEHOLDER = "https://pharos.example/ping/phr_epk_…"


def test_keys_are_created_listed_and_revoked(pharos: RunCommand) -> None:
    created = run_json(pharos, "ping-key", "create", "--expires", "90d")
    assert created["key"].startswith("phr_epk_") and created["expires_at"] is not None
    shown = run_text(pharos, "ping-key", "create")
    key = re.search(r"phr_epk_\w{38}", shown)
    assert key is not None and f"/ping/{key[0]}/backup/$??create=1" in shown
    listed = run_json(pharos, "ping-keys", "list")
    assert [each["state"] for each in listed] == ["live", "live"] and "key" not in listed[0]
    output = run_text(pharos, "ping-key", "list")
    assert "production" in output and created["key"] not in output
    number = str(created["id"])
    assert run_text(pharos, "ping-key", "revoke", number, "--yes") == (
        f"Ping key {number} of my-project/production is revoked.\n"
    )
    assert run_json(pharos, "ping-key", "list")[1]["state"] == "revoked"
    refusal = expect_refusal(pharos, "ping-key", "revoke", "999", "--yes", status=5)
    assert refusal == "There is no ping key 999; `pharos ping-key list` shows all."
    assert "refuse the pings of all jobs that use it" in expect_refusal(pharos, "ping-key", "revoke", "2")


@pytest.fixture
def folder(tmp_path: Path, on_socket: PlatformProcess) -> Iterator[Path]:
    """A folder with a job, and with stand-ins for programs of other machines."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, script in (
        ("backup", "echo 3 files"),
        ("pharos", f'exec {PHAROS} "$@" --data {on_socket.data}'),
        # The files and values that it is given have to be there.
        ("kubectl", 'for each; do case $each in --from-file=*) test -s "${each#*=}";; esac; done'),
    ):
        (tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (tools / name).chmod(0o755)
    yield tmp_path


def _blocks(language: str) -> list[str]:
    return [text for found, text in _BLOCK.findall(_GUIDE.read_text()) if found == language]


def _run(folder: Path, script: str, **variables: str) -> str:
    environment = {**CLEAN_ENVIRONMENT, "PATH": f"{folder}/bin:{os.environ['PATH']}", **variables}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script.replace(_BACKUP, f"{folder}/bin/backup")],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_block_of_the_guide_works(on_socket: PlatformProcess, pharos: RunCommand, folder: Path) -> None:
    assert {language for language, _ in _BLOCK.findall(_GUIDE.read_text())} == {
        *("sh", "crontab", "ini", "yaml"),
    }
    base = f"http://127.0.0.1:{on_socket.port}"
    shells = _blocks("sh")
    # Heartbeats and log entries of a ping exist once the ping is processed.
    waits = "until pharos heartbeats | grep -q backup; do sleep 0.1; done"
    shells[0] = shells[0].replace("http://127.0.0.1:8000", base).replace("pharos heartbeats", waits)
    for verb, text in (("log", "half of the tables"), ("output", "12 tables")):
        command = f"pharos heartbeat {verb} backup"
        wait = f"until {command} | grep -q {shlex.quote(text)}; do sleep 0.1; done\n{command}"
        shells = [block.replace(command, wait) for block in shells]
    output = _run(folder, "\n".join([*shells, 'echo "$BASE/ping/$PING_KEY" > ping']))
    assert output.startswith("Created") and "half of the tables are dumped" in output
    assert "12 tables, 3 GB" in output and "saved 12 tables" in output

    url = (folder / "ping").read_text().strip()
    (crontab,) = _blocks("crontab")
    variable, line = crontab.replace(_PLACEHOLDER, url).splitlines()
    _run(folder, line.split(None, 5)[5], **dict([variable.split("=", 1)]))

    service, timer = (_read_unit(text) for text in _blocks("ini"))
    assert timer["Timer"]["OnCalendar"] and timer["Install"]["WantedBy"] == "timers.target"
    comment = re.search(r"^# PHAROS_PING_URL=(.*)$", _blocks("ini")[0], re.MULTILINE)
    assert comment is not None
    command = service["Service"]["ExecStart"].replace("/usr/local/bin/pharos-run.py", "pharos-run.py")
    _run(folder, command, PHAROS_PING_URL=comment[1].replace(_PLACEHOLDER, url))

    actions, cron_job = (yaml.safe_load(text) for text in _blocks("yaml"))
    job, report = actions["jobs"]["backup"]["steps"]
    _run(folder, job["run"])
    assert report["if"] == "always()"
    for status in ("success", "failure"):
        _run(folder, report["run"], PING=f"{url}/actions", STATUS=status)

    (container,) = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert container["env"][0]["name"] == "PHAROS_PING_URL"
    command = shlex.join(container["command"]).replace("/pharos/pharos-run.py", "pharos-run.py")
    _run(folder, command, PHAROS_PING_URL=f"{url}/kubernetes?create=1")

    on_socket.wait_until_consumed()
    states = {each["name"]: each["state"] for each in run_json(pharos, "heartbeats")}
    assert {name: states.get(name) for name in ("backup", "report", "actions", "kubernetes")} == {
        "backup": "up",
        "report": "up",
        "actions": "down",
        "kubernetes": "up",
    }


def _read_unit(text: str) -> Any:
    """Return the sections of a unit of systemd."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return json.loads(json.dumps({name: dict(parser[name]) for name in parser.sections()}))

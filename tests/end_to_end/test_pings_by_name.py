"""Ping URLs by name, `?create=1`, `/log` and the served `pharos-run.py`, on a running `pharos up`."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.support.platform_process import PlatformProcess, platform_process

# Reached only if something is wrong.
_SECONDS = 60


def _wait_for(what: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + _SECONDS
    while not (found := what()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def _request(platform: PlatformProcess, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    """Return status and body of a GET, or of a POST with this body."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{platform.port}{path}", body, timeout=60) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def _find(platform: PlatformProcess, name: str, state: str) -> dict[str, Any] | None:
    """Return the heartbeat if it is in this state."""
    listed = json.loads(platform.run("heartbeats", "--json").stdout)
    (found,) = [each for each in listed if each["name"] == name] or [None]
    return found if found is not None and found["state"] == state else None


def test_jobs_ping_heartbeats_by_name(tmp_path: Path) -> None:
    with platform_process(tmp_path / "data") as platform:
        shown = platform.run("ping-key", "create").stdout
        created = json.loads(platform.run("ping-key", "create", "--json").stdout)
        assert "pharos-run.py" in shown and "?create=1" in shown
        listed = platform.run("ping-keys", "list").stdout
        assert listed.count("live") == 2 and created["key"] not in listed
        url = created["url"]

        def ping(path: str, body: bytes | None = None) -> int:
            return _request(platform, url + path, body)[0]

        assert [ping("first-heartbeat"), ping("backup")] == [200, 404]
        # Many jobs begin at the same time: one heartbeat is created, and each ping counts once.
        with ThreadPoolExecutor(8) as pool:
            statuses = set(pool.map(lambda _: ping("backup/start?create=1"), range(8)))
        assert statuses <= {200, 201} and 201 in statuses
        # Killed before its consumer may have created the heartbeat.
        platform.kill()
        platform.start()
        backup = _wait_for(lambda: _find(platform, "backup", "running"))
        assert (backup["period_seconds"], backup["grace_seconds"], backup["open_runs"]) == (86_400, 3600, 1)
        assert _wait_for(lambda: ping("backup", b"3 files") == 200)
        assert ping("backup/log", b"<half> done\n") == 200
        _wait_for(lambda: _find(platform, "backup", "up"))
        _wait_for(lambda: "<half> done" in platform.run("heartbeat", "log", "backup").stdout)
        assert "3 files" in platform.run("heartbeat", "output", "backup").stdout
        audited = json.loads(platform.run("audit", "--json").stdout)
        assert [each["source"] for each in audited if each["action"] == "heartbeat.create"].count("ping") == 1

        # The single file, downloaded as on any machine.
        script = tmp_path / "pharos-run.py"
        script.write_bytes(_request(platform, "/pharos-run.py")[1])
        done = subprocess.run(
            [sys.executable, str(script), "--", "sh", "-c", "echo copied; exit 3"],
            env={**os.environ, "PHAROS_PING_URL": f"http://127.0.0.1:{platform.port}{url}copy?create=1"},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
        assert (done.returncode, done.stdout, done.stderr) == (3, "copied\n", "")
        copy = _wait_for(lambda: _find(platform, "copy", "down"))
        run = json.loads(platform.run("heartbeat", "output", "copy", "--json").stdout)
        assert (run["exit_status"], run["output"], run["duration_seconds"] is None) == (3, "copied\n", False)

        # A new name works immediately. The edge that has just created the former name forgets it within seconds.
        platform.run("heartbeat", "rename", str(copy["id"]), "moved")
        assert ping("moved") == 200
        _wait_for(lambda: ping("copy") == 404)
        revoked = platform.run("ping-key", "revoke", str(created["id"]), "--yes")
        assert (revoked.returncode, revoked.stderr) == (0, "")
        assert [ping("backup"), ping("new?create=1")] == [404, 404]
        assert created["key"] not in platform.log.read_text()

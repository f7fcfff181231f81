"""Heartbeats and queues on a running platform, from the command line and over HTTP."""

import json
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.platform_process import PlatformProcess, platform_process
from tests.support.waits import wait_until


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformProcess]:
    with platform_process(tmp_path_factory.mktemp("monitors") / "data") as running:
        yield running


def report(platform: PlatformProcess, path: str, key: str, body: Any) -> int:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    return platform.request("POST", f"/api/v1{path}", body=json.dumps(body).encode(), headers=headers).status


def run_json(platform: PlatformProcess, *command: str) -> Any:
    done = platform.run(*command, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_a_heartbeat_goes_from_its_first_signal_to_down(platform: PlatformProcess) -> None:
    # Each state lasts until the next action, no matter how slow a command is.
    created = run_json(
        platform, "heartbeat", "create", "fast", "--period", "1h", "--grace", "1h", "--max-runtime", "1h"
    )
    number, run = str(created["id"]), str(uuid.uuid4())
    path = f"/heartbeats/{number}"

    def show() -> Any:
        return run_json(platform, "heartbeat", "show", number)

    def state() -> str:
        shown: str = show()["state"]
        return shown

    assert state() == "new"
    assert report(platform, path, created["key"]["key"], {"run_id": run, "signal": "start"}) == 202
    wait_until(lambda: state() == "running")
    assert report(platform, path, created["key"]["key"], {"run_id": run, "signal": "success"}) == 202
    wait_until(lambda: state() == "up")
    run_json(platform, "heartbeat", "set", number, "--period", "1s")
    wait_until(lambda: state() == "late")
    late = show()
    # The exact time of the deadline, regardless of the time of the scan.
    assert late["since"] == late["due_at"]
    run_json(platform, "heartbeat", "set", number, "--grace", "1s")
    wait_until(lambda: state() == "down")
    shown = show()
    assert datetime.fromisoformat(shown["since"]) - datetime.fromisoformat(late["due_at"]) == timedelta(
        seconds=1
    )
    (of_run,) = shown["runs"]
    assert (of_run["run_id"], of_run["outcome"], shown["failures_in_row"]) == (run, "succeeded", 1)
    assert 0 <= of_run["duration_seconds"] < 3600
    listed = platform.run("heartbeats").stdout
    assert "fast" in listed and "down" in listed and created["key"]["key"] not in listed


def test_pharos_run_reports_a_real_job(platform: PlatformProcess) -> None:
    """`pharos run` with the heartbeat of the data folder: a successful, a failed and a killed run."""
    heartbeat = platform.credentials["heartbeat"]["id"]
    wrapped = ("run", "--heartbeat", str(heartbeat), "--data", str(platform.data), "--", sys.executable, "-c")
    statuses = []
    for script in ("pass", "raise SystemExit(3)", "import os; os.kill(os.getpid(), 9)"):
        done = platform.run(*wrapped, script, data=False)
        statuses.append(done.returncode)
    assert statuses == [0, 3, 137]

    def runs() -> list[str]:
        return [run["outcome"] for run in run_json(platform, "heartbeat", "show", str(heartbeat))["runs"]]

    wait_until(lambda: runs() == ["failed", "failed", "succeeded"])
    assert run_json(platform, "heartbeat", "show", str(heartbeat))["state"] == "down"


def test_heartbeats_are_paused_and_their_keys_revoked(platform: PlatformProcess) -> None:
    created = run_json(
        platform, "heartbeat", "create", "cron", "--cron", "0 3 * * *", "--timezone", "Europe/Oslo"
    )
    number, path = str(created["id"]), f"/heartbeats/{created['id']}"
    assert run_json(platform, "heartbeat", "pause", number)["state"] == "paused"
    key = created["key"]
    assert report(platform, path, key["key"], {"run_id": str(uuid.uuid4()), "signal": "failure"}) == 202
    wait_until(lambda: len(run_json(platform, "heartbeat", "show", number)["runs"]) == 1)
    assert run_json(platform, "heartbeat", "show", number)["state"] == "paused"
    assert run_json(platform, "heartbeat", "resume", number)["state"] == "new"
    other = run_json(platform, "heartbeat", "new-key", number)
    run_json(platform, "heartbeat", "revoke-key", number, str(key["id"]))
    body = {"run_id": str(uuid.uuid4()), "signal": "success"}
    assert report(platform, path, key["key"], body) == 401
    signalled = datetime.now(UTC)
    assert report(platform, path, other["key"], body) == 202
    wait_until(lambda: run_json(platform, "heartbeat", "show", number)["state"] == "up")
    shown = run_json(platform, "heartbeat", "show", number)
    assert datetime.fromisoformat(shown["due_at"]) > signalled
    assert [(each["id"], each["state"]) for each in shown["keys"]] == [
        (other["id"], "live"),
        (key["id"], "revoked"),
    ]


def test_a_queue_shows_its_counts_and_workers(platform: PlatformProcess) -> None:
    first = platform.credentials["queue"]
    path = f"/queues/{first['id']}"
    for second, pending in ((10, 4), (30, 9), (20, 6)):
        snapshot = {
            "snapshot_id": str(uuid.uuid4()),
            "observed_at": f"2026-11-20T12:00:{second}Z",
            "pending": pending,
            "oldest_wait_seconds": 75,
        }
        assert report(platform, f"{path}/snapshots", first["key"], snapshot) == 202
    worker = {"worker_id": str(uuid.uuid4()), "sequence": 2, "status": "busy", "job_id": str(uuid.uuid4())}
    for update in (worker, {**worker, "sequence": 1, "status": "idle"}):
        assert report(platform, f"{path}/workers", first["key"], update) == 202

    def shown() -> Any:
        return run_json(platform, "queue", "show", str(first["id"]))

    wait_until(lambda: shown()["pending"] == 9 and len(shown()["worker_list"]) == 1)
    output = shown()
    assert output["observed_at"] == "2026-11-20T12:00:30.000Z"
    assert output["worker_list"][0]["status"] == "busy"
    assert output["workers"] == {"idle": 0, "busy": 1, "stopped": 0, "lost": 0}
    assert "1m 15s" in platform.run("queues").stdout
    wait_until(
        lambda: (
            platform.query("SELECT count() AS n FROM pharos.queue_snapshots") == [{"n": 3}]
            and platform.query("SELECT count() AS n FROM pharos.queue_worker_updates") == [{"n": 2}]
        ),
    )
    created = run_json(platform, "queue", "create", "mail")
    assert created["key"]["key"].startswith("phr_mon_")
    assert [queue["name"] for queue in run_json(platform, "queues")] == ["mail", "default"]

"""A team moves from Sentry: it creates a key, changes the DSN, and reads issues, traces, logs and check-ins."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import skip_if_missing
from tests.support.guide_blocks import read_guide
from tests.support.javascript_client import node_environment
from tests.support.platform_process import PlatformProcess
from tests.support.sentry_javascript import sentry_javascript_app
from tests.support.waits import wait_until

_COUNTED = Path(__file__).parents[1] / "support" / "sentry_counted"
_DROPPED = "pharos.sentry.dropped_items"


def _run_json(platform: PlatformProcess, *command: str) -> Any:
    done = platform.run(*command, "--json")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)


def _command(app: str) -> list[str]:
    if app == "python":
        return [sys.executable, "-m", "tests.support.sentry_app"]
    with skip_if_missing():
        return sentry_javascript_app()


def _run_counted(app: str, folder: Path, dsn: str) -> None:
    """Run the program of the guide, which then sends what is counted."""
    files, _ = read_guide("sentry.md")
    if app == "python":
        program = files["shop.py"]
        (folder / "shop.py").write_text(f"{program}\nimport sentry_counted\nsentry_counted.send()\n")
        command = [sys.executable, "shop.py"]
    else:
        modules = Path(_command(app)[1]).with_name("node_modules")
        (folder / "node_modules").symlink_to(modules)
        program = files["shop.js"]
        (folder / "shop.js").write_text(f"{program}\nrequire('{_COUNTED}/sentry_counted.js').send(Sentry)\n")
        command = ["node", "shop.js"]
    variables = node_environment(SENTRY_DSN=dsn, PYTHONPATH=str(_COUNTED))
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=150)
    assert (done.returncode, done.stderr) == (0, "")


def _assert_counted(platform: PlatformProcess, environment: str) -> None:
    platform.wait_until_consumed()
    for table, place, text, different, expected in (
        ("otel_traces", "EnvironmentId", "SpanName", "SpanId", 200),
        ("otel_logs", "EnvironmentId", "Body", "Body", 100),
        ("exceptions", "environment_id", "message", "message", 20),
    ):
        (found,) = platform.query(
            f"SELECT count() AS stored, uniqExact({different}) AS different FROM pharos.{table} "
            f"WHERE {place} = '{environment}' AND {text} LIKE 'counted%'"
        )
        assert (table, found) == (table, {"stored": expected, "different": expected})


def test_credentials_have_the_dsn(platform: PlatformProcess) -> None:
    key = platform.credentials["ingest_key"]
    assert platform.credentials["sentry_dsn"] == f"http://{key}@127.0.0.1:{platform.port}/1"


@pytest.mark.parametrize("app", ["python", pytest.param("node", marks=pytest.mark.full)])
def test_the_sdk_with_the_dsn_of_a_new_key(platform: PlatformProcess, tmp_path: Path, app: str) -> None:
    name = f"sentry-{app}"
    environment = _run_json(platform, "environment", "create", name, "--type", "staging")["id"]
    for_it = ("--environment", environment)
    heartbeat = _run_json(
        platform, "heartbeat", "create", "nightly-report", "--cron", "0 3 * * *", "--grace", "1h", *for_it
    )
    created = platform.run("key", "create", *for_it)
    assert "The DSN of this key, for Sentry's SDKs:" in created.stdout, created.stderr
    dsn = created.stdout.split()[-1]
    url = f"/api/1/cron/nightly-report/{dsn.removeprefix('http://').partition('@')[0]}/?status=error"
    # Until the edge knows key and heartbeat. The check-ins of the SDK then report that the job works again.
    wait_until(lambda: platform.request("GET", url).status == 200)

    done = subprocess.run([*_command(app), dsn], capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)

    wait_until(lambda: len(_run_json(platform, "issues", *for_it)) == 2)
    issues = {issue["message"].split()[0]: issue for issue in _run_json(platform, "issues", *for_it)}
    assert (issues["order"]["count"], issues["order"]["affected_users"]) == (2, 1)
    assert (issues["order"]["services"], issues["order"]["trace_id"]) == (["shop"], made["trace_id"])
    assert issues["the"]["count"] == 1

    wait_until(lambda: _run_json(platform, "traces", *for_it))
    (trace,) = _run_json(platform, "traces", *for_it)
    assert (trace["id"], trace["name"]) == (made["trace_id"], "GET /orders")
    # If an error is sent before the transaction ends, the SDK for Python adds a span of its own request: it recognises
    # Pharos by the host of the DSN, which has a port here.
    spans = platform.query(
        f"SELECT SpanName AS name FROM pharos.otel_traces WHERE TraceId = '{trace['id']}' "
        f"AND EnvironmentId = '{environment}' AND SpanName NOT LIKE 'POST http%/api/1/envelope/' ORDER BY name"
    )
    assert [span["name"] for span in spans] == ["GET /orders", "SELECT * FROM orders"]
    wait_until(lambda: "order 17 placed" in [log["text"] for log in _run_json(platform, "logs", *for_it)])
    wait_until(lambda: _run_json(platform, "heartbeat", "show", str(heartbeat["id"]))["state"] == "up")
    if app == "node":
        # Sessions are dropped, and counted for the owner every ten seconds.
        wait_until(lambda: _DROPPED in [metric["name"] for metric in _run_json(platform, "metrics", *for_it)])
    _run_counted(app, tmp_path, dsn)
    _assert_counted(platform, environment)

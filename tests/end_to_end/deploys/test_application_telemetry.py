"""A deployed application sends telemetry without any configuration, and its output is stored as log records."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.counted_telemetry import COUNTED, assert_counted
from tests.support.engines import skip_if_missing
from tests.support.installation import App, Installation
from tests.support.javascript_client import javascript_client, node_environment
from tests.support.repositories import Repository
from tests.support.waits import wait_until

_WORKFLOW = """\
version: 1
build: {steps: ["env > build.txt"]}
release: {steps: ["python3 send.py from-release"]}
processes:
  web: {command: python3 app.py, health: {path: /}}
  worker: {command: "python3 send.py from-worker && exec sleep 1000"}
"""

# Exporters decode these variables: the specification percent-encodes headers and resource attributes.
_SEND = """\
import json, os, sys, time, urllib.parse, urllib.request


def pairs(name):
    read = [pair.split("=", 1) for pair in os.environ[name].split(",")]
    return {key: urllib.parse.unquote(value) for key, value in read}


def send(body):
    resource = {**pairs("OTEL_RESOURCE_ATTRIBUTES"), "service.name": os.environ["OTEL_SERVICE_NAME"]}
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in resource.items()]
    record = {"timeUnixNano": str(time.time_ns()), "body": {"stringValue": body}, "severityNumber": 9}
    scopes = [{"logRecords": [record]}]
    logs = {"resourceLogs": [{"resource": {"attributes": attributes}, "scopeLogs": scopes}]}
    headers = {"Content-Type": "application/json", **pairs("OTEL_EXPORTER_OTLP_HEADERS")}
    url = os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] + "/v1/logs"
    request = urllib.request.Request(url, json.dumps(logs).encode(), headers)
    urllib.request.urlopen(request, timeout=30).read()


if __name__ == "__main__":
    send(sys.argv[1])
    print("printed", sys.argv[1], os.environ["PHAROS_INGEST_KEY"], flush=True)
"""

_APP = """\
import http.server, json, os, sys
import send

print("web has started", flush=True)
print('{"level": "error", "msg": "structured complaint", "order": 7}', file=sys.stderr, flush=True)
send.send("from-web")


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print("served", self.path, flush=True)
        names = ("OTEL_", "PHAROS_", "SENTRY_")
        variables = {name: value for name, value in os.environ.items() if name.startswith(names)}
        body = json.dumps({"build": open("build.txt").read(), "variables": variables}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""

# Do what `opentelemetry-instrument` does before it runs the program; the exporters are its defaults.
_UNMODIFIED_PYTHON = """\
import os
for signal in ("TRACES", "METRICS", "LOGS"):
    os.environ.setdefault(f"OTEL_{signal}_EXPORTER", "otlp")
os.environ["OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED"] = "true"
from opentelemetry.sdk._configuration import _OTelSDKConfigurator
_OTelSDKConfigurator().configure(auto_instrumentation_version="0")
import counted
counted.send()
"""


@pytest.fixture(scope="module")
def app(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> App:
    repository = Repository(tmp_path_factory.mktemp("telemetry") / "app.git")
    repository.commit({"pharos.yaml": _WORKFLOW, "send.py": _SEND, "app.py": _APP})
    created = installation.create_app("Shop", repository)
    done = created.deploy_live()
    key = _variables(created)["PHAROS_INGEST_KEY"]
    # The release step has printed it.
    assert "printed from-release •••" in done.texts
    assert not any(key in text for text in done.texts)
    return created


def _variables(app: App) -> dict[str, str]:
    """Return the variables of the web process that Pharos sets, or that configure OpenTelemetry or Sentry."""
    variables: dict[str, str] = json.loads(app.get()[1])["variables"]
    # The mark by which a deployer finds its processes.
    del variables["PHAROS_INSTANCE"]
    return variables


def _search(app: App, words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = app.installation.run_json(
        "logs", "--environment", app.name, "--search", words, "-n", "100"
    )
    return found


def _wait_found(app: App, words: str) -> dict[str, Any]:
    wait_until(lambda: len(_search(app, words)) >= 1, 60, lambda: _search(app, words))
    return _search(app, words)[0]


def test_every_process_sends_telemetry_without_configuration(app: App) -> None:
    for process, service in (("release", "shop-release"), ("web", "shop"), ("worker", "shop-worker")):
        # The application's own log records, not its output.
        wait_until(
            lambda process=process, service=service: (
                [(f"from-{process}", service)]
                == [
                    (one["text"], one["service"])
                    for one in _search(app, f"from {process}")
                    if one["source"] == "otlp"
                ]
            ),
            60,
        )
    variables = _variables(app)
    ((commit,),) = app.installation.rows("SELECT revision FROM releases ORDER BY id DESC LIMIT 1")
    url = f"http://127.0.0.1:{app.installation.platform.port}"
    assert variables == {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"{url}/api/v1/otlp",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_HEADERS": f"Authorization=Bearer%20{variables['PHAROS_INGEST_KEY']}",
        "OTEL_SERVICE_NAME": "shop",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=production,service.namespace=shop,"
        f"service.version={commit}",
        "PHAROS_URL": url,
        "PHAROS_INGEST_KEY": variables["PHAROS_INGEST_KEY"],
        "PHAROS_ENVIRONMENT": "production",
        "SENTRY_DSN": f"{url.replace('://', '://' + variables['PHAROS_INGEST_KEY'] + '@')}/1",
        "SENTRY_ENVIRONMENT": "production",
        "SENTRY_RELEASE": f"shop@{commit}",
    }
    # Build steps get none of these variables.
    assert "phr_ing_" not in json.loads(app.get()[1])["build"]


@pytest.mark.parametrize("language", ["python", "node"])
def test_unmodified_sdks_need_only_the_variables(app: App, tmp_path: Path, language: str) -> None:
    # The application itself has no SDK: its user may not read the packages of the tests.
    variables = {**_variables(app), "OTEL_SERVICE_NAME": f"{language}-counted"}
    if language == "python":
        command = [sys.executable, "-c", _UNMODIFIED_PYTHON]
        variables["PYTHONPATH"] = str(COUNTED)
    else:
        with skip_if_missing():
            javascript_client().write_app(tmp_path, {"counted.js": (COUNTED / "counted.js").read_text()})
        command = ["node", "--require", "@opentelemetry/auto-instrumentations-node/register", "counted.js"]
    done = subprocess.run(
        command, cwd=tmp_path, env=node_environment(**variables), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and "Failed to export" not in done.stderr, done.stderr
    assert_counted(app.installation.platform, f"{language}-counted")


def test_an_unmodified_sentry_sdk_needs_only_the_variables(app: App, tmp_path: Path) -> None:
    variables = _variables(app)
    program = "import sentry_sdk\nsentry_sdk.init()\n1 / 0\n"
    # In this folder, which is no repository, only the variable names the release.
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=node_environment(**variables),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "ZeroDivisionError" in done.stderr
    query = "SELECT service, version FROM pharos.exceptions WHERE message = 'division by zero'"
    wait_until(lambda: app.installation.platform.query(query), 60)
    resource = dict(pair.split("=") for pair in variables["OTEL_RESOURCE_ATTRIBUTES"].split(","))
    assert app.installation.platform.query(query) == [
        {"service": variables["OTEL_SERVICE_NAME"], "version": resource["service.version"]}
    ]


def test_the_output_of_processes_is_searchable(app: App) -> None:
    started = _wait_found(app, "web has started")
    assert (started["service"], started["severity"]) == ("shop", "info")
    assert started["attributes"]["pharos.instance"] == "web.1"
    complaint = _wait_found(app, "structured complaint")
    assert (complaint["text"], complaint["severity"]) == ("structured complaint", "error")
    assert complaint["attributes"]["order"] == 7
    # The worker has printed its key.
    assert _wait_found(app, "printed from worker")["text"] == "printed from-worker phr_ing_•••"
    secret = _variables(app)["PHAROS_INGEST_KEY"]
    assert secret not in app.installation.platform.log.read_text()


def test_lines_are_stored_once_although_the_platform_is_killed(app: App) -> None:
    for life in range(3):
        for number in range(20):
            app.get(f"/life{life}/line{number}")
        app.installation.platform.kill()
        app.installation.start()
        wait_until(app.is_up, 60)
    expected = Counter({f"served /life{life}/line{number}": 1 for life in range(3) for number in range(20)})
    wait_until(lambda: len(_search(app, "served line19")) >= 3, 60, lambda: _search(app, "served"))
    texts = Counter(record["text"] for life in range(3) for record in _search(app, f"life{life}"))
    assert texts == expected


def test_a_key_is_made_once_and_replaced_after_its_revocation(app: App) -> None:
    former = _variables(app)["PHAROS_INGEST_KEY"]
    app.deploy_live()
    assert _variables(app)["PHAROS_INGEST_KEY"] == former
    (key,) = app.installation.run_json("key", "list", "--environment", app.name)
    assert (key["name"], key["state"]) == ("deployed application", "live")
    app.installation.run_json("key", "revoke", str(key["id"]), "--environment", app.name, "--yes")
    app.deploy_live()
    present = _variables(app)["PHAROS_INGEST_KEY"]
    assert present != former
    app.get("/after-the-revocation")
    _wait_found(app, "after the revocation")
    states = [key["state"] for key in app.installation.run_json("key", "list", "--environment", app.name)]
    assert states == ["live", "revoked"]


def test_variables_of_the_user_win(app: App, tmp_path: Path) -> None:
    app.set_variables(
        "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:9\nOTEL_SERVICE_NAME=mine\nPHAROS_ENVIRONMENT=blue\n"
    )
    app.repository.commit(
        {
            "pharos.yaml": _WORKFLOW.replace("python3 send.py", "true").replace(
                "release: {steps: [", "release: {steps: ['true', "
            ),
            "send.py": "def send(body): pass\n",
            "app.py": _APP,
        }
    )
    app.deploy_live()
    variables = _variables(app)
    assert variables["OTEL_SERVICE_NAME"] == "mine"
    assert variables["PHAROS_ENVIRONMENT"] == "blue"
    assert variables["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://127.0.0.1:9"
    # The key is not sent to another collector.
    assert "OTEL_EXPORTER_OTLP_HEADERS" not in variables

"""The guides of JavaScript and OpenTelemetry run as written, and Pharos stores the telemetry that they send."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.counted_telemetry import COUNTED, assert_counted, insert_line
from tests.support.engines import EngineMissing, skip_if_missing
from tests.support.guide_blocks import GUIDES, read_guide, run_script
from tests.support.javascript_client import CLIENT, JavascriptClient, node_environment, run_node
from tests.support.platform_process import PlatformProcess, platform_process
from tests.support.start_page import read_start_variables

_GO = Path(__file__).parents[2] / "support" / "otel_go"
_WORKER = "node --env-file=pharos.env worker.mjs\n"
_GO_MODULES = "go mod init example.com/shop && go mod tidy\n"


@pytest.fixture(scope="module")
def protobuf_platform(
    client: JavascriptClient, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PlatformProcess]:
    allowed = {"PHAROS_OTLP_PROTOBUF": "1"}
    with platform_process(tmp_path_factory.mktemp("protobuf") / "data", env=allowed) as running:
        yield running


def guide_variables(platform: PlatformProcess, app: Path, **more: str) -> dict[str, str]:
    """Return the environment of the commands of a guide, and let `pharos` find the platform in its folder."""
    if not (app / ".pharos").exists():
        (app / ".pharos").symlink_to(platform.data)
    variables = node_environment(
        BASE=f"http://127.0.0.1:{platform.port}", KEY=platform.credentials["ingest_key"], **more
    )
    return {**variables, "PATH": f"{Path(sys.executable).parent}:{variables['PATH']}"}


def run_guide(client: JavascriptClient, app: Path, name: str, heading: str, variables: dict[str, str]) -> str:
    files, script = read_guide(name, heading)
    client.write_app(app, files)
    return run_script(app, script, variables)


def start_variables(
    client: JavascriptClient, platform: PlatformProcess, app: Path, language: str
) -> dict[str, str]:
    """Return the environment of a program that is set up as the page `/start` shows it for a language."""
    variables = guide_variables(platform, app)
    return variables | read_start_variables(
        client, language, variables["BASE"], variables["KEY"], f"{language}-start", "production"
    )


def telemetry(platform: PlatformProcess, service: str) -> dict[str, set[str]]:
    """Return the names of the stored spans and metrics of a service, and the texts of its logs."""
    platform.wait_until_consumed()
    names: dict[str, set[str]] = {}
    for signal, table, column in (
        ("traces", "otel_traces", "SpanName"),
        ("logs", "otel_logs", "Body"),
        ("metrics", "otel_metrics_sum", "MetricName"),
        ("metrics", "otel_metrics_histogram", "MetricName"),
    ):
        rows = platform.query(f"SELECT {column} AS name FROM pharos.{table} WHERE ServiceName = '{service}'")
        names.setdefault(signal, set()).update(row["name"] for row in rows)
    return names


def events(platform: PlatformProcess, service: str) -> list[dict[str, Any]]:
    platform.wait_until_consumed()
    return platform.query(
        f"SELECT type, title, name, status_code FROM pharos.telemetry_events WHERE service = '{service}' "
        "ORDER BY timestamp, position"
    )


def test_the_example_of_the_readme(platform: PlatformProcess, client: JavascriptClient, app: Path) -> None:
    created = platform.run("heartbeat", "create", "readme", "--every", "1d", "-q")
    assert created.returncode == 0, created.stderr
    shown = platform.run("heartbeat", "show", "readme").stdout
    ping = next(word for word in shown.split() if "/ping/phr_png_" in word)
    example = (CLIENT / "README.md").read_text().partition("```js\n")[2].partition("```")[0]
    assert "service: 'shop'" in example
    example = example.replace("service: 'shop'", "service: 'readme'")
    (app / "readme.mjs").write_text(f"const backUp = () => 7\n{example}")
    variables = {
        "PHAROS_URL": f"http://127.0.0.1:{platform.port}",
        "PHAROS_INGEST_KEY": platform.credentials["ingest_key"],
        "BACKUP_PING_URL": ping,
    }
    ended = run_node(app, "readme.mjs", **variables)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    sent = [(event["type"], event["title"]) for event in events(platform, "readme")]
    assert sent == [("log", "order placed"), ("exception", "no price")]
    assert "succeeded" in platform.run("heartbeat", "runs", "readme", "--json").stdout


def test_the_guide_of_the_client(platform: PlatformProcess, client: JavascriptClient, app: Path) -> None:
    created = platform.run("heartbeat", "create", "guide", "--every", "1d", "-q")
    assert created.returncode == 0, created.stderr
    shown = platform.run("heartbeat", "show", "guide").stdout
    ping = next(word for line in shown.splitlines() for word in line.split() if "/ping/phr_png_" in word)
    variables = guide_variables(platform, app, BACKUP_PING_URL=ping)

    run_guide(client, app, "javascript.md", "Logs and exceptions", variables)
    sent = [(event["type"], event["title"]) for event in events(platform, "shop")]
    assert sent == [("log", "order placed"), ("exception", "no price for article 42")]
    run_guide(client, app, "javascript.md", "Logs of `console`, Pino and Winston", variables)
    assert {event["title"] for event in events(platform, "loggers")} == {"low stock", "not shipped"}
    run_guide(client, app, "javascript.md", "Requests", variables)
    (request,) = events(platform, "web")
    assert (request["type"], request["status_code"]) == ("request", 200)
    run_guide(client, app, "javascript.md", "Heartbeats of scheduled jobs", variables)
    platform.wait_until_consumed()
    assert "succeeded" in platform.run("heartbeat", "runs", "guide", "--json").stdout

    (app / "server.mjs").write_text(read_guide("javascript.md", "Requests")[0]["server.mjs"])
    run_guide(client, app, "javascript.md", "OpenTelemetry in one call", variables)
    found = telemetry(platform, "traced-web")
    assert {"GET"} <= found["traces"] and "http.server.request.duration" in found["metrics"]
    # The event of the request is part of the server's trace.
    linked = platform.query(
        "SELECT count() AS n FROM pharos.telemetry_events AS event JOIN pharos.otel_traces AS span "
        "ON span.TraceId = event.trace_id WHERE event.service = 'web' AND span.ServiceName = 'traced-web'"
    )
    assert linked[0]["n"] >= 1


def test_the_guide_of_bullmq(
    platform: PlatformProcess, client: JavascriptClient, app: Path, redis_url: str
) -> None:
    files, script = read_guide("javascript.md", "BullMQ")
    client.write_app(app, files)
    # The commands print the number and the key for people to copy.
    create = "pharos queue create mail\nQUEUE=2 QUEUE_KEY=phr_mon_…     # as printed\n"
    assert create in script and _WORKER in script
    script = script.replace(
        create,
        "created=$(pharos queue create mail --json)\n"
        "read -r QUEUE QUEUE_KEY < <(python -c "
        '\'import json, sys; made = json.loads(sys.argv[1]); print(made["id"], made["key"]["key"])\' "$created")\n',
    )
    # The program ends once both have reported.
    script = script.replace(
        _WORKER,
        f"{_WORKER.strip()} & worker=$!\n"
        "trap 'kill -9 $worker' EXIT\n"
        "for _ in $(seq 200); do\n"
        "  shown=$(pharos queue show mail --json)\n"
        '  case $shown in *\'"pending": 0\'*\'"status": "idle"\'*) break;; esac\n'
        "done\n"
        "trap - EXIT; kill -TERM $worker; wait $worker\n"
        'echo "$shown"\n',
    )
    shown = run_script(app, script, guide_variables(platform, app, REDIS_URL=redis_url))
    assert '"status": "idle"' in shown and '"pending": 0' in shown


def test_the_unmodified_sdk_for_javascript(
    platform: PlatformProcess, client: JavascriptClient, app: Path
) -> None:
    variables = guide_variables(platform, app)
    files, script = read_guide("opentelemetry.md", "JavaScript")
    counting = "require('./counted.js').send(logger)"
    shop = insert_line(files["shop.js"], "server.listen", counting)
    client.write_app(app, {"shop.js": shop, "counted.js": (COUNTED / "counted.js").read_text()})
    run_script(app, script, variables)
    # The spans of the server and of the client, and the record of the server.
    assert_counted(platform, "js-shop", own_spans=2, own_records=1)
    found = telemetry(platform, "js-shop")
    assert {"GET", "counted"} == found["traces"] and "order placed" in found["logs"]
    assert {"http.server.request.duration", "http.client.request.duration"} <= found["metrics"]
    # The same application in ESM, with the option that the guide names and the variables of `/start`.
    loader = "--experimental-loader @opentelemetry/instrumentation/hook.mjs"
    assert loader in (GUIDES / "opentelemetry.md").read_text()
    module = shop.replace("const http = require('node:http')", "import http from 'node:http'")
    module = module.replace(
        "const logger = require('pino')()", "import pino from 'pino'\nconst logger = pino()"
    )
    module = module.replace(counting, "import counted from './counted.js'\ncounted.send(logger)")
    client.write_app(app, {"shop.mjs": module})
    register = "--require @opentelemetry/auto-instrumentations-node/register"
    assert register in script
    run_script(app, f"node {register} {loader} shop.mjs", start_variables(client, platform, app, "node"))
    assert_counted(platform, "node-start", own_spans=2, own_records=1)
    printed = run_guide(client, app, "opentelemetry.md", "Find it again", variables)
    assert "js-shop" in printed and "http.server.request.duration" in printed


# `tests/otlp/test_sdks.py` covers protobuf with the SDK for Python.
@pytest.mark.full
def test_the_unmodified_sdk_for_go(
    protobuf_platform: PlatformProcess, client: JavascriptClient, app: Path
) -> None:
    with skip_if_missing():
        _require("go", "golang-go")
        for name in ("go.mod", "go.sum"):
            shutil.copy(_GO / name, app)
        _prepare(["go", "mod", "download"], app)
    files, script = read_guide("opentelemetry.md", "Go")
    main = insert_line(files["main.go"], "span.End()", "\tsendCounted(traces, logs, metrics)")
    client.write_app(app, {"main.go": main, "counted.go": (COUNTED / "counted.go").read_text()})
    # Use the modules of `go.sum`, not the newest versions.
    assert _GO_MODULES in script
    run_script(app, script.replace(_GO_MODULES, ""), guide_variables(protobuf_platform, app))
    assert_counted(protobuf_platform, "go-shop", own_spans=1, own_records=1)
    found = telemetry(protobuf_platform, "go-shop")
    assert found["traces"] == {"place order", "counted"} and "order placed" in found["logs"]
    assert found["metrics"] == {"orders", "counted.orders"}
    linked = protobuf_platform.query(
        "SELECT count() AS n FROM pharos.otel_logs AS log JOIN pharos.otel_traces AS span ON span.SpanId = log.SpanId"
        " WHERE log.ServiceName = 'go-shop' AND log.Body = 'order placed'"
    )
    assert linked == [{"n": 1}]
    run_script(app, "go run .", start_variables(client, protobuf_platform, app, "go"))
    assert_counted(protobuf_platform, "go-start", own_spans=1, own_records=1)


# `tests/otlp/test_sdks.py` covers protobuf with the SDK for Python.
@pytest.mark.full
def test_the_unmodified_agent_for_java(
    protobuf_platform: PlatformProcess, client: JavascriptClient, app: Path
) -> None:
    files, script = read_guide("opentelemetry.md", "Java")
    shop = insert_line(files["Shop.java"], 'getLogger("shop")', "        Counted.send();")
    counted = {name: (COUNTED / name).read_text() for name in ("Counted.java", "pom.xml")}
    client.write_app(app, {"Shop.java": shop, **counted})
    head, download, rest = script.partition("mvn ")
    download, _, rest = f"{download}{rest}".partition("export OTEL_SERVICE_NAME")
    with skip_if_missing():
        _require("javac", "openjdk-17-jdk-headless")
        _require("mvn", "maven")
        _prepare(["bash", "-c", download], app)
        # An application that uses the API has it on its class path.
        _prepare(["mvn", "--quiet", "dependency:copy-dependencies", "-DoutputDirectory=api"], app)
    variables = {"CLASSPATH": ".:api/*"}
    run_script(
        app,
        f"{head}export OTEL_SERVICE_NAME{rest}",
        guide_variables(protobuf_platform, app, **variables),
    )
    assert_counted(protobuf_platform, "java-shop", own_spans=1, own_records=1)
    found = telemetry(protobuf_platform, "java-shop")
    assert found["traces"] == {"GET", "counted"} and "order placed: 200" in found["logs"]
    assert "http.client.request.duration" in found["metrics"]
    start = rest.strip().splitlines()[-1]
    assert start.startswith("java -javaagent:")
    variables |= start_variables(client, protobuf_platform, app, "java")
    run_script(app, start, variables)
    assert_counted(protobuf_platform, "java-start", own_spans=1, own_records=1)


def test_refused_protobuf_exporter_logs_the_setting(
    platform: PlatformProcess, client: JavascriptClient, app: Path
) -> None:
    """The SDK for JavaScript speaks protobuf too; without the setting, it logs why Pharos refuses it."""
    files, _ = read_guide("opentelemetry.md", "JavaScript")
    client.write_app(app, files)
    done = run_node(
        app,
        *("--require", "@opentelemetry/auto-instrumentations-node/register", "shop.js"),
        OTEL_SERVICE_NAME="refused",
        OTEL_NODE_RESOURCE_DETECTORS="env",
        OTEL_LOG_LEVEL="error",
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{platform.port}/api/v1/otlp",
        OTEL_EXPORTER_OTLP_HEADERS=f"Authorization=Bearer%20{platform.credentials['ingest_key']}",
    )
    assert "PHAROS_OTLP_PROTOBUF" in done.stdout + done.stderr
    assert telemetry(platform, "refused") == {"traces": set(), "logs": set(), "metrics": set()}


def _require(program: str, package: str) -> None:
    if shutil.which(program) is None:
        raise EngineMissing(f"{program} is not installed; on Debian: apt-get install {package}")


def _prepare(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=400)
    if done.returncode:
        raise EngineMissing(f"{command[0]} cannot download what the test needs: {done.stderr[-300:]}")

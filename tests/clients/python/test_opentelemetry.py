"""OpenTelemetry for Python sends to a platform that accepts only JSON: after one call, or with its own variables."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.python.conftest import RunningPlatform
from tests.support.waits import wait_until

_SOURCE = Path(__file__).parents[3] / "clients" / "python" / "src"

_WORK = """
import logging
from opentelemetry import metrics, trace
logging.getLogger().setLevel(logging.DEBUG)
with trace.get_tracer("shop").start_as_current_span("checkout"):
    logging.getLogger("shop").warning("paid", extra={"order": 7})
metrics.get_meter("shop").create_counter("orders").add(3)
"""
_ONE_CALL = f"""
import pharos_client.opentelemetry
pharos_client.opentelemetry.setup(service_name="one-call")
{_WORK}
"""
# Do what `opentelemetry-instrument` does before it runs the program.
_UNMODIFIED = f"""
from opentelemetry.sdk._configuration import _OTelSDKConfigurator
_OTelSDKConfigurator().configure(auto_instrumentation_version="0")
{_WORK}
"""


def run(program: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        env={"PYTHONPATH": str(_SOURCE), "OTEL_EXPORTER_OTLP_TIMEOUT": "60", **environment},
    )


@pytest.mark.parametrize("service", ["one-call", "unmodified"])
def test_all_signals_arrive(platform: RunningPlatform, service: str) -> None:
    if service == "one-call":
        done = run(
            _ONE_CALL,
            PHAROS_URL=platform.url,
            PHAROS_INGEST_KEY=platform.key,
            PHAROS_ENVIRONMENT="staging",
        )
    else:
        done = run(
            _UNMODIFIED,
            OTEL_SERVICE_NAME="unmodified",
            OTEL_EXPORTER_OTLP_ENDPOINT=f"{platform.url}/api/v1/otlp",
            OTEL_EXPORTER_OTLP_HEADERS=f"Authorization=Bearer%20{platform.key}",
            # A deployed application has this variable too. Python's SDK does not support it, and must work without it.
            OTEL_EXPORTER_OTLP_PROTOCOL="http/json",
            OTEL_TRACES_EXPORTER="otlp_json_http",
            OTEL_METRICS_EXPORTER="otlp_json_http",
            OTEL_LOGS_EXPORTER="otlp_json_http",
            OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED="true",
        )
    assert done.returncode == 0, done.stderr
    assert "refused" not in done.stderr and "Failed to export" not in done.stderr

    def rows(table: str, columns: str) -> list[dict[str, object]]:
        return platform.process.query(f"SELECT {columns} FROM pharos.{table} WHERE ServiceName = '{service}'")

    wait_until(lambda: rows("otel_metrics_sum", "Value") and rows("otel_traces", "TraceId"))
    (span,) = rows(
        "otel_traces", "TraceId, SpanName, ResourceAttributes['deployment.environment.name'] AS place"
    )
    assert span["SpanName"] == "checkout"
    assert span["place"] == ("staging" if service == "one-call" else "")
    assert rows("otel_metrics_sum", "MetricName, Value") == [{"MetricName": "orders", "Value": 3}]
    wait_until(lambda: rows("otel_logs", "Body"))
    # Records of the export itself are not exported.
    (log,) = rows("otel_logs", "Body, TraceId, LogAttributes['order'] AS order")
    assert log == {"Body": "paid", "TraceId": span["TraceId"], "order": "7"}


def test_the_protocol_alone_is_not_known_to_the_sdk() -> None:
    """The reason why the documentation names the exporters: this fails in the SDK itself."""
    done = run(
        _UNMODIFIED,
        OTEL_TRACES_EXPORTER="otlp",
        OTEL_EXPORTER_OTLP_PROTOCOL="http/json",
        OTEL_SERVICE_NAME="x",
    )
    assert done.returncode != 0 and "Unsupported OTLP protocol 'http/json'" in done.stderr


def test_setup_without_an_address_says_what_to_set() -> None:
    done = run("import pharos_client.opentelemetry as o; o.setup('shop')")
    assert "ValueError: Set PHAROS_URL and PHAROS_INGEST_KEY, or OTEL_EXPORTER_OTLP_ENDPOINT." in done.stderr
    missing = "import sys; sys.modules['opentelemetry.sdk'] = None\nimport pharos_client.opentelemetry as o; o.setup()"
    assert "pip install 'pharos-client[opentelemetry]'" in run(missing).stderr

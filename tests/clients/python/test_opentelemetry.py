"""OpenTelemetry for Python sends to a platform that accepts only JSON: after one call, or with its own variables."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.python.conftest import RunningPlatform
from tests.support.counted_telemetry import COUNTED, assert_counted
from tests.support.engines import skip_if_missing
from tests.support.guide_blocks import read_exports
from tests.support.javascript_client import javascript_client
from tests.support.start_page import read_start_variables

_SOURCE = Path(__file__).parents[3] / "clients" / "python" / "src"

_WORK = """
import logging
import counted
from opentelemetry import metrics, trace
logging.getLogger().setLevel(logging.DEBUG)
with trace.get_tracer("shop").start_as_current_span("checkout"):
    logging.getLogger("shop").warning("paid", extra={"order": 7})
metrics.get_meter("shop").create_counter("orders").add(3)
counted.send()
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
        env={"PYTHONPATH": f"{_SOURCE}:{COUNTED}", "OTEL_EXPORTER_OTLP_TIMEOUT": "60", **environment},
    )


def variables_of(platform: RunningPlatform, service: str) -> dict[str, str]:
    """Return the variables of a service: for one call, as the guide shows them, or as the page `/start` shows them."""
    if service == "one-call":
        return {
            "PHAROS_URL": platform.url,
            "PHAROS_INGEST_KEY": platform.key,
            "PHAROS_ENVIRONMENT": "staging",
        }
    if service == "guide":
        exports = read_exports("python.md", "OTEL_TRACES_EXPORTER", BASE=platform.url, KEY=platform.key)
        exports["OTEL_SERVICE_NAME"] = service
    else:
        with skip_if_missing():
            client = javascript_client()
        exports = read_start_variables(client, "python", platform.url, platform.key, service, "staging")
    return {
        # A deployed application has this variable too. Python's SDK does not support it, and must work without it.
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
        # `opentelemetry-instrument` loads the instrumentation for it.
        "OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED": "true",
        **exports,
    }


@pytest.mark.parametrize("service", ["one-call", "guide", "start"])
def test_all_signals_arrive(platform: RunningPlatform, service: str) -> None:
    program = _ONE_CALL if service == "one-call" else _UNMODIFIED
    done = run(program, **variables_of(platform, service))
    assert done.returncode == 0, done.stderr
    assert "refused" not in done.stderr and "Failed to export" not in done.stderr
    # Records of the export itself are not exported.
    assert_counted(platform.process, service, own_spans=1, own_records=1)

    def rows(table: str, columns: str, condition: str) -> list[dict[str, object]]:
        return platform.process.query(
            f"SELECT {columns} FROM pharos.{table} WHERE ServiceName = '{service}' AND {condition}"
        )

    place = "ResourceAttributes['deployment.environment.name'] AS place"
    (span,) = rows("otel_traces", f"TraceId, {place}", "SpanName = 'checkout'")
    assert span["place"] == ("" if service == "guide" else "staging")
    orders = rows("otel_metrics_sum", "Value", "MetricName = 'orders'")
    assert {row["Value"] for row in orders} == {3}
    (log,) = rows("otel_logs", "TraceId, LogAttributes['order'] AS order", "Body = 'paid'")
    assert log == {"TraceId": span["TraceId"], "order": "7"}


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

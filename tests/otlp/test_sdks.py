"""The unmodified OpenTelemetry SDKs deliver all signals of a small application."""

import asyncio
import json
import os
import sys
from typing import Any

import pytest

from tests.otlp.conftest import StartPipeline
from tests.support.engines import skip_if_missing
from tests.support.otel_javascript import javascript_app
from tests.support.otlp_pipeline import OtlpPipeline


def _command(app: str) -> list[str]:
    if app != "js":
        return [sys.executable, "-m", "tests.support.otel_app", app]
    with skip_if_missing():
        return javascript_app()


# After ten seconds without a response, the SDKs drop the data or send it again.
_PATIENCE_SECONDS = 100


async def _run(app: str, pipeline: OtlpPipeline) -> Any:
    command = _command(app)
    # JavaScript has these in milliseconds, Python in seconds.
    patience = str(_PATIENCE_SECONDS * (1000 if app == "js" else 1))
    environment = {
        **os.environ,
        "OTEL_EXPORTER_OTLP_ENDPOINT": pipeline.endpoint,
        "OTEL_EXPORTER_OTLP_HEADERS": f"Authorization=Bearer%20{pipeline.key}",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
        "OTEL_EXPORTER_OTLP_TIMEOUT": patience,
        "PYTHONWARNINGS": "ignore",
    }
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), 150)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, err.decode()
    return json.loads(out)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize("app", ["js", "json", "proto"])
async def test_everything_that_the_sdk_sends_is_stored(start_pipeline: StartPipeline, app: str) -> None:
    """Protobuf is allowed for the SDK that supports nothing else."""
    pipeline = await start_pipeline(protobuf=app == "proto")
    made = await _run(app, pipeline)
    await pipeline.consume()

    rows = {row["SpanId"]: row for row in await pipeline.rows("otel_traces")}
    assert len(rows) == len(made["spans"]) == 120
    for span in made["spans"]:
        row = rows[span["spanId"]]
        assert (row["TraceId"], row["SpanName"]) == (span["traceId"], span["name"])
        assert row["SpanAttributes"] == {name: _text(value) for name, value in span["attributes"].items()}
        assert row["ServiceName"] == ("js-shop" if app == "js" else f"py-{app}")
        assert row["ResourceAttributes"]["service.version"] == "1.2.3"
        if span["name"].startswith("order"):
            assert (row["SpanKind"], row["ParentSpanId"]) == ("Server", "")
        else:
            parent = rows[row["ParentSpanId"]]
            assert (row["SpanKind"], parent["TraceId"]) == ("Client", row["TraceId"])
            assert row["Links.SpanId"] == [row["ParentSpanId"]]
            assert row["Events.Name"][0] == "tried"
            assert row["Events.Attributes"][0] == {"attempt": "1"}
    failed = [row for row in rows.values() if row["StatusCode"] == "Error"]
    assert len(failed) == 4
    for row in failed:
        assert (row["StatusMessage"], row["Events.Name"]) == ("not shipped", ["tried", "exception"])
        assert row["Events.Attributes"][1]["exception.message"].startswith("no lorry for order")

    logs = await pipeline.rows("otel_logs")
    assert sorted(row["Body"] for row in logs) == sorted(f"order {n} placed" for n in range(1, 41))
    assert {row["SeverityText"] for row in logs} == {"INFO"}
    assert {row["SpanId"] for row in logs} <= set(rows)
    assert sorted(int(row["LogAttributes"]["number"]) for row in logs) == list(range(1, 41))

    sums = {
        (row["MetricName"], row["Attributes"].get("express")): row
        for row in await pipeline.rows("otel_metrics_sum")
    }
    assert [sums["orders", express]["Value"] for express in ("true", "false")] == [20.0, 20.0]
    assert sums["orders", "true"]["IsMonotonic"]
    assert (sums["orders.open", None]["Value"], sums["orders.open", None]["IsMonotonic"]) == (0.0, False)
    (histogram,) = {row["MetricName"]: row for row in await pipeline.rows("otel_metrics_histogram")}.values()
    assert (histogram["Count"], histogram["Sum"], histogram["Max"]) == (40, 2460.0, 120.0)
    gauges = await pipeline.rows("otel_metrics_gauge")
    assert {(row["MetricName"], row["Value"], row["Attributes"]["room"]) for row in gauges} == {
        ("temperature", 21.5, "a")
    }


async def test_refusal_of_protobuf_names_the_setting(pipeline: OtlpPipeline) -> None:
    """Without the setting, the SDK gets 415 and logs the reason."""
    await _run("proto", pipeline)
    await pipeline.consume()
    assert await pipeline.rows("otel_traces") == []

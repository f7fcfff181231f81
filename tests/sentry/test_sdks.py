"""The unmodified Sentry SDKs: their exceptions become issues, their transactions traces, their logs log records."""

import asyncio
import json
import os
import sys
from typing import Any

import pytest

from tests.support.engines import skip_if_missing
from tests.support.otlp_pipeline import OtlpPipeline
from tests.support.sentry_javascript import sentry_javascript_app

_EXCEPTIONS = "SELECT * FROM pharos.exceptions WHERE environment_id = {environment:String}"
_EVENTS = "SELECT * FROM pharos.telemetry_events WHERE environment_id = {environment:String}"


def _command(app: str) -> list[str]:
    if app == "python":
        return [sys.executable, "-m", "tests.support.sentry_app"]
    with skip_if_missing():
        return sentry_javascript_app()


async def _run(app: str, *arguments: str) -> Any:
    process = await asyncio.create_subprocess_exec(
        *_command(app),
        *arguments,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
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


@pytest.mark.parametrize("app,spans", [("python", "static"), ("node", "static"), ("node", "stream")])
async def test_everything_that_the_sdk_sends_is_found(pipeline: OtlpPipeline, app: str, spans: str) -> None:
    """Newer SDKs for JavaScript send spans one by one (`stream`), others send whole transactions."""
    made = await _run(app, pipeline.dsn, *([] if app == "python" else [spans]))
    await pipeline.sentry.dropped.flush()
    await pipeline.consume()

    events = {row["id"]: row for row in await pipeline.query(_EVENTS)}
    assert set(events) == {*made["errors"], made["message"]}
    for event_id in made["errors"]:
        row = events[event_id]
        assert (row["service"], row["severity"], row["trace_id"]) == ("shop", "error", made["trace_id"])
        attributes, payload = json.loads(row["attributes"]), json.loads(row["payload"])
        assert attributes["shop.region"] == "eu"
        assert attributes["deployment.environment.name"] == "staging"
        assert attributes["host.name"] == "web-1"
        assert payload["user"]["email"] == "ada@shop.example"
        assert [each["type"] for each in payload["exception"]["values"]][0] == "TypeError"
        # The SDK for Python sends the arguments of the command, and so the DSN.
        assert pipeline.key not in row["payload"]
    assert events[made["message"]]["severity"] == "warning"

    exceptions = await pipeline.query(_EXCEPTIONS)
    failed = [row for row in exceptions if row["kind"] == ("ValueError" if app == "python" else "Error")]
    # Both are one issue: their messages differ in a number.
    assert len(failed) == 2 and len({row["group_id"] for row in failed}) == 1
    assert {row["message"] for row in failed} == {"order 17 failed", "order 18 failed"}
    assert {row["user"] for row in failed} == {"user-7"}
    assert {row["version"] for row in failed} == {"1.2.3"}
    function = {"python": "sentry_app.py in _fail", "node": "fail ("}[app]
    assert all(row["frame"].startswith(function) for row in failed)
    assert all("TypeError: " in row["stack"] for row in failed)
    assert [row["message"] for row in exceptions if row not in failed] == ["the stock is low"]

    rows = {row["SpanId"]: row for row in await pipeline.rows("otel_traces")}
    root, child = rows.pop(made["span_id"]), rows.pop(made["child_id"])
    assert not rows
    assert root["TraceId"] == child["TraceId"] == made["trace_id"]
    assert (root["SpanName"], root["SpanKind"], root["ParentSpanId"]) == ("GET /orders", "Server", "")
    assert (root["StatusCode"], root["StatusMessage"]) == ("Error", "internal_error")
    assert root["SpanAttributes"]["user.id"] == "user-7"
    assert (child["SpanName"], child["SpanKind"]) == ("SELECT * FROM orders", "Client")
    assert child["ParentSpanId"] == made["span_id"]
    assert child["SpanAttributes"]["db.query.text"] == "SELECT * FROM orders"
    assert child["SpanAttributes"]["db.system"] == "postgresql"
    for row in (root, child):
        assert row["ServiceName"] == "shop"
        assert row["ResourceAttributes"]["service.version"] == "1.2.3"

    logs = {row["Body"]: row for row in await pipeline.rows("otel_logs")}
    placed = logs["order 17 placed"]
    assert (placed["SeverityText"], placed["SeverityNumber"]) == ("INFO", 9)
    assert (placed["TraceId"], placed["SpanId"]) == (made["trace_id"], made["span_id"])
    assert (placed["ServiceName"], placed["ResourceAttributes"]["host.name"]) == ("shop", "web-1")

    dropped = {
        (row["Attributes"]["sentry.item_type"], row["Attributes"]["reason"]): row["Value"]
        for row in await pipeline.rows("otel_metrics_sum")
        if row["MetricName"] == "pharos.sentry.dropped_items"
    }
    assert dropped.pop(("check_in", "no_heartbeat")) == 2.0
    assert set(dropped) <= {("session", "not_kept"), ("client_report", "not_kept")}

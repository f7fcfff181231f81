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


def _command(app: str) -> list[str]:
    if app == "python":
        pytest.importorskip("sentry_sdk")
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

    exceptions = await pipeline.query("SELECT * FROM pharos.exceptions WHERE environment_id = {environment:String}")
    print(json.dumps(exceptions, indent=1, default=str))
    events = await pipeline.query("SELECT * FROM pharos.telemetry_events WHERE environment_id = {environment:String}")
    print(json.dumps(events[0], indent=1, default=str)[:6000])
    for t in ("otel_traces", "otel_logs", "otel_metrics_sum"):
        print(t, json.dumps(await pipeline.rows(t), indent=1, default=str))
    print(made)
    assert 0

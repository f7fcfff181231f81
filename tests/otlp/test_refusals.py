"""Malformed requests: status, google.rpc.Status code and message of each. Nothing of them is stored."""

import asyncio
import gzip
import json
import secrets
from typing import Any

import pytest

from pipeline_contracts.rate_limits import RateLimit
from tests.otlp.conftest import StartPipeline
from tests.otlp.refusal_cases import CASES, Case
from tests.otlp.requests import attribute, span, traces
from tests.support.otlp_pipeline import ALL_SIGNALS, JSON, PROTOBUF


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_malformed_requests_are_refused(start_pipeline: StartPipeline, case: Case) -> None:
    pipeline = await start_pipeline(**case.limits)
    answer = await pipeline.post(case.signal, case.body, case.headers, case.method)
    told = answer.document()
    assert (answer.status, answer.content_type, told["code"]) == (case.status, JSON, case.code)
    assert told["message"].startswith(case.message)
    assert set(told) == {"code", "message"}
    assert "X-Request-Id" in answer.headers
    assert ("WWW-Authenticate" in answer.headers) == (case.status == 401)
    assert answer.headers.get("Allow") == ("POST" if case.status == 405 else None)
    for topic in ALL_SIGNALS.values():
        assert await pipeline.appended(topic) == 0


async def test_request_over_the_rate_is_retryable(start_pipeline: StartPipeline) -> None:
    """429 with code 8 and `Retry-After`; more than the burst is 413, because a retry cannot succeed."""
    # The clock stands still, so that the whole four seconds remain at the second request.
    pipeline = await start_pipeline(rate=RateLimit(0.5, 2), clock=lambda: 100.0)
    assert (await pipeline.post("traces", traces(span(), span()))).status == 200
    answer = await pipeline.post("traces", traces(span(), span()))
    assert (answer.status, answer.document()["code"]) == (429, 8)
    assert answer.headers["Retry-After"] == "4"
    answer = await pipeline.post("traces", traces(span(), span(), span()))
    assert (answer.status, answer.document()["code"]) == (413, 3)


async def test_request_is_retryable_while_the_log_is_unreachable(start_pipeline: StartPipeline) -> None:
    """503 with code 14 and `Retry-After`; the same request is accepted once the log is reachable."""
    pipeline = await start_pipeline()
    await pipeline.log.call(lambda connection: connection.execute("PRAGMA max_page_count=1").fetchall())
    big = span(attributes=[attribute("noise", stringValue=secrets.token_hex(90_000))])
    answer = await pipeline.post("traces", traces(big))
    assert (answer.status, answer.document()["code"]) == (503, 14)
    assert int(answer.headers["Retry-After"]) >= 1
    await pipeline.log.call(lambda connection: connection.execute("PRAGMA max_page_count=100000").fetchall())
    assert (await pipeline.post("traces", traces(big))).status == 200


async def test_a_body_that_never_ends_is_retryable(start_pipeline: StartPipeline) -> None:
    """After a 408, senders would drop the data."""
    pipeline = await start_pipeline(body_timeout_seconds=0.2)

    async def unfinished() -> Any:
        yield b"{"
        await asyncio.Event().wait()

    url = f"{pipeline.endpoint}/v1/traces"
    headers = {"Content-Type": JSON, "Authorization": f"Bearer {pipeline.key}"}
    async with (
        asyncio.timeout(60),
        pipeline.session.post(url, data=unfinished(), headers=headers) as answer,
    ):
        # Not `answer.read()`, which also waits until the request is sent.
        told = json.loads(await answer.content.read())
    assert (answer.status, told["code"]) == (503, 14)
    assert answer.headers["Retry-After"] == "1"


async def test_refusal_in_protobuf_is_a_status_message(start_pipeline: StartPipeline) -> None:
    from google.rpc.status_pb2 import Status

    pipeline = await start_pipeline(protobuf=True)
    answer = await pipeline.post("traces", b"\xff\xff", {"Content-Type": PROTOBUF})
    assert (answer.status, answer.content_type) == (400, PROTOBUF)
    status = Status.FromString(answer.body)
    assert status.code == 3
    assert status.message == "The body is not a valid ExportTraceServiceRequest."
    answer = await pipeline.post("nothing", b"", {"Content-Type": PROTOBUF})
    assert (answer.status, answer.content_type, Status.FromString(answer.body).code) == (404, PROTOBUF, 5)
    answer = await pipeline.post("traces", b"", {"Content-Type": PROTOBUF, "Authorization": ""})
    assert Status.FromString(answer.body).code == 16


async def test_protobuf_has_its_own_size_limit(start_pipeline: StartPipeline) -> None:
    """A message of two bytes may take 180 in memory."""
    pipeline = await start_pipeline(protobuf=True, max_protobuf_bytes=5000)
    for headers, body in (
        ({}, b"\x0a\x00" * 2501),
        ({"Content-Encoding": "gzip"}, gzip.compress(bytes(5001))),
    ):
        answer = await pipeline.post("traces", body, {"Content-Type": PROTOBUF, **headers})
        assert (answer.status, answer.content_type) == (413, PROTOBUF)
    answer = await pipeline.post("traces", b"\x0a\x00" * 2500, {"Content-Type": PROTOBUF})
    assert answer.status == 200

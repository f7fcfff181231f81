"""Sentry's SDKs send to separate processes on Kafka, and a 200 means stored once, also while the broker is away."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from loadtests.stack import parts
from loadtests.stack.stack import Stack, running_stack
from storage_backends.column_store.clickhouse_server import open_clickhouse_server
from storage_backends.column_store.interface import ColumnStore
from tests.ingest_edge.sentry.test_convert import envelope
from tests.support import fork_server
from tests.support.engines import or_skip, skip_if_missing
from tests.support.sentry_javascript import sentry_javascript_app
from tests.support.waits import wait_for_result

# `tests/sentry` covers what is stored, `test_separate_processes.py` the same guarantee of batches. Both without --full.
pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

_SENDERS = 8
_SECONDS_AWAY = 3.0
# An edge without brokers says so soon, so that senders try again within the test.
_SETTINGS = {"PHAROS_KAFKA_TIMEOUT_SECONDS": "2"}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("stack")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "_popen", fork_server.popen)
        with or_skip(running_stack(folder, consumers=1, settings=_SETTINGS)) as running:
            yield running


@asynccontextmanager
async def open_store(stack: Stack) -> AsyncIterator[ColumnStore]:
    store = await open_clickhouse_server(stack.clickhouse.url)
    try:
        yield store
    finally:
        await store.close()


async def _column(store: ColumnStore, sql: str) -> list[str]:
    return sorted(str(row[0]) for row in (await store.query(sql)).rows)


@pytest.mark.parametrize("app", ["python", "node"])
async def test_everything_that_the_sdk_sends_is_found(stack: Stack, app: str) -> None:
    if app == "python":
        command = [sys.executable, "-m", "tests.support.sentry_app"]
    else:
        with skip_if_missing():
            command = sentry_javascript_app()
    process = await asyncio.create_subprocess_exec(
        *command,
        stack.credentials["sentry_dsn"],
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await asyncio.wait_for(process.communicate(), 150)
    made = json.loads(out)
    events, trace = sorted([*made["errors"], made["message"]]), made["trace_id"]

    async with open_store(stack) as store:

        async def stored() -> list[list[str]]:
            where = f"WHERE TraceId = '{trace}'"
            return [
                await _column(store, f"SELECT id FROM pharos.telemetry_events WHERE trace_id = '{trace}'"),
                await _column(store, f"SELECT SpanId FROM pharos.otel_traces {where}"),
                await _column(
                    store, f"SELECT Body FROM pharos.otel_logs {where} AND Body = 'order 17 placed'"
                ),
            ]

        expected = [events, sorted([made["span_id"], made["child_id"]]), ["order 17 placed"]]

        async def is_stored() -> bool:
            return await stored() == expected

        await wait_for_result(is_stored, 120, 0.2)


@dataclass(slots=True)
class Sent:
    """IDs of the envelopes that got a 200, and the responses by status."""

    identities: list[str] = field(default_factory=list)
    answers: Counter[int | str] = field(default_factory=Counter)


def _make_envelope(identity: str) -> bytes:
    """Return an envelope with an event, a transaction of two spans, a log record and a profile, named by the ID."""
    trace = {"trace_id": identity, "span_id": identity[:16]}
    now = time.time()
    times = {"start_timestamp": now - 1, "timestamp": now}
    transaction = {
        **times,
        "event_id": uuid.UUID(int=uuid.UUID(identity).int ^ 1).hex,
        "transaction": "GET /kafka",
        "contexts": {"trace": trace},
        "spans": [{**times, **trace, "span_id": identity[16:], "parent_span_id": identity[:16]}],
    }
    log = {"timestamp": now, "level": "info", "body": f"log {identity}", "trace_id": identity}
    return envelope(
        ("event", {"event_id": identity, "message": "kafka", "timestamp": now, "contexts": {"trace": trace}}),
        ("transaction", transaction),
        ("log", {"items": [log]}),
        ("profile", {}),
    )


async def _send_through_an_outage(stack: Stack) -> Sent:
    """Send until the broker was killed and is back for a while; each envelope until it gets a 200, as an SDK with an
    offline transport does, and every third one once more."""
    sent = Sent()
    is_over = asyncio.Event()
    url = f"{stack.credentials['base_url']}/1/envelope/"
    headers = {"X-Sentry-Auth": f"Sentry sentry_key={stack.credentials['ingest_key']}, sentry_version=7"}

    async def post(session: aiohttp.ClientSession, body: bytes) -> bool:
        try:
            async with session.post(url, data=body, headers=headers) as response:
                await response.read()
                sent.answers[response.status] += 1
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            sent.answers["no answer"] += 1
            return False

    async def send(session: aiohttp.ClientSession) -> None:
        while not is_over.is_set():
            identity = uuid.uuid4().hex
            body = _make_envelope(identity)
            while not await post(session, body):
                await asyncio.sleep(0.2)
            sent.identities.append(identity)
            if len(sent.identities) % 3 == 0:
                await post(session, body)
            await asyncio.sleep(0.02)

    async def until_more(number: int) -> None:
        wanted = len(sent.identities) + number

        async def are_more() -> bool:
            return len(sent.identities) >= wanted

        await wait_for_result(are_more, 180)

    timeout = aiohttp.ClientTimeout(total=30)
    async with aiohttp.ClientSession(timeout=timeout) as session, asyncio.TaskGroup() as senders:
        for _ in range(_SENDERS):
            senders.create_task(send(session))
        await until_more(50)
        stack.kafka.stop(signal.SIGKILL)
        await asyncio.sleep(_SECONDS_AWAY)
        await asyncio.to_thread(stack.kafka.start)
        await until_more(50)
        is_over.set()
    return sent


async def test_each_envelope_with_a_200_is_stored_once_though_the_broker_is_killed(stack: Stack) -> None:
    sent = await _send_through_an_outage(stack)
    identities = sorted(sent.identities)
    print(f"{len(identities)} envelopes, responses {dict(sent.answers)}")
    assert sent.answers[200] > len(identities) and sent.answers.total() > sent.answers[200]
    # The edges append what they have counted before they end.
    for edge in stack.edges:
        assert await asyncio.to_thread(edge.stop) == 0
    spans = sorted(part for each in identities for part in (each[:16], each[16:]))
    async with open_store(stack) as store:

        async def stored() -> list[Any]:
            (dropped,) = await _column(
                store,
                "SELECT toUInt64(sum(Value)) FROM pharos.otel_metrics_sum "
                "WHERE MetricName = 'pharos.sentry.dropped_items' AND Attributes['sentry.item_type'] = 'profile'",
            )
            return [
                await _column(store, "SELECT id FROM pharos.telemetry_events WHERE title = 'kafka'"),
                await _column(
                    store,
                    "SELECT SpanId FROM pharos.otel_traces WHERE TraceId IN "
                    "(SELECT TraceId FROM pharos.otel_traces WHERE SpanName = 'GET /kafka')",
                ),
                await _column(store, "SELECT Body FROM pharos.otel_logs WHERE startsWith(Body, 'log ')"),
                int(dropped),
            ]

        expected = [identities, spans, [f"log {each}" for each in identities], sent.answers[200]]

        async def is_stored() -> bool:
            return await stored() == expected

        with contextlib.suppress(TimeoutError):
            await wait_for_result(is_stored, 120, 0.5)
        assert await stored() == expected
